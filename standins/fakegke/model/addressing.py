"""Which resource a request is about.

Its `name` or `parent`, or the deprecated `project_id`, `zone`, … fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from standins.fakegke.resource_names import Place, parse_cluster, parse_location, parse_operation, parse_pool

if TYPE_CHECKING:
    from standins.fakegke.model.proto_messages import Message


def pool_place(request: Message) -> Place:
    """Return the pool that a request names.

    Raises GkeError (INVALID_ARGUMENT) for a malformed name.
    """
    if request.name:
        return parse_pool("name", request.name)
    return parse_pool("name", f"{_legacy_cluster(request)}/nodePools/{request.node_pool_id}")


def cluster_place(request: Message, field: str) -> Place:
    """Return the cluster that a request names in `field` (`parent` or `name`)."""
    value = getattr(request, field)
    return parse_cluster(field, value or _legacy_cluster(request))


def operation_place(request: Message) -> Place:
    """Return the operation that a request names; its location may be `-`."""
    if request.name:
        return parse_operation("name", request.name)
    return parse_operation("name", f"{_legacy_location(request)}/operations/{request.operation_id}")


def location_place(request: Message, field: str) -> Place:
    """Return the location that a request names in `field`; `-` means all."""
    return parse_location(field, getattr(request, field) or _legacy_location(request))


def _legacy_location(request: Message) -> str:
    return f"projects/{request.project_id}/zones/{request.zone}"


def _legacy_cluster(request: Message) -> str:
    return f"{_legacy_location(request)}/clusters/{request.cluster_id}"
