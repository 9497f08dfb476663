"""Reads for how long the pool of a slice may stay without use after its workload is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.counts import parse_count
from shared.model.errors import NotAllowed

if TYPE_CHECKING:
    from shared.model.workloads import PodTemplate, SliceGroup
    from shared.settings import Settings
    from shared.shapes.shape import Shape

_FIELD = f"annotation {labels.IDLE_SECONDS}"


def read_idle_seconds(
    group: SliceGroup, template: PodTemplate, shape: Shape, settings: Settings
) -> int:
    """Return the seconds that the annotation asks for, else those of the setting.

    A pool that no other workload may use never stays. What the setting asks for is 0 there, and an
    annotation is refused, because its author would pay for a pool that waits for nothing, or wonder
    why it does not wait.

    Raises:
        NotAllowed: the annotation is no number within the bound, or asks for what cannot be.
    """
    asked = template.annotations.get(labels.IDLE_SECONDS)
    obstacle = _find_obstacle(group, template, shape)
    if asked is None:
        return 0 if obstacle else settings.idle_seconds
    seconds = parse_count(asked)
    if seconds is None or seconds > settings.idle_bound:
        raise NotAllowed(
            "not a number of seconds that the settings idle_seconds and idle_seconds_max allow",
            field=_FIELD,
            value=asked,
            valid=f"0 to {settings.idle_bound}",
        )
    if seconds and obstacle:
        raise NotAllowed(obstacle, field=_FIELD, value=asked, valid="0, or no such annotation")
    return seconds


def _find_obstacle(group: SliceGroup, template: PodTemplate, shape: Shape) -> str:
    """Return why no other workload may use the pool of a slice; empty if one may."""
    if group.pinned:
        return "the node pool is pinned to its slice, so that no later workload can use it"
    if group.elastic:
        return "the node pool is elastic, and a later workload may have more pods than it has nodes"
    if shape.multi_host and not (group.whole or template.node_pool_affinity):
        return (
            "nothing keeps the pods of this slice on one node pool, so that pods like these may be spread over "
            "several idle node pools"
        )
    return ""
