"""What a write turns into before it is stored: defaults, validation, the built-in plugins and JobSet's webhooks.

`Admission` picks the rules of a kind; each module holds the rules of one kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from local.cluster.admission import definitions, jobs, jobsets, nodes, pods
from local.cluster.errors import invalid
from local.cluster.jobset_views import JobSetView
from local.cluster.store.kinds import DEFINITION, JOB, JOBSET, NAMESPACE, NODE, POD, Kind
from local.cluster.views import AnyObject, JobView, NodeView, PodView

if TYPE_CHECKING:
    from local.cluster.clock import Clock
    from local.cluster.store.store import Store

Json = dict[str, Any]

_SHAPES: dict[str, type] = {
    POD.storage: PodView,
    NODE.storage: NodeView,
    JOB.storage: JobView,
    JOBSET.storage: JobSetView,
}


class Admission:
    """The rules for writes, with what they need to look at."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def create(self, kind: Kind, body: Json) -> None:
        """Default and check a new object in place.

        Raises:
            ApiError: 403 or 422.
        """
        self.check_shape(kind, body)
        if kind is POD:
            pods.admit_new(self._store, body, self._clock.timestamp())
        elif kind is NODE:
            nodes.admit_new(body)
        elif kind is JOB:
            jobs.admit_new(body)
        elif kind is JOBSET:
            jobsets.admit_new(body)
        elif kind is NAMESPACE:
            _admit_namespace(body)
        elif kind is DEFINITION:
            definitions.admit_new(body, self._clock.timestamp())

    def update(self, kind: Kind, old: Json, new: Json) -> None:
        """Default and check a changed object in place.

        Raises:
            ApiError: 403 or 422.
        """
        self.check_shape(kind, new)
        if kind is POD:
            pods.admit_change(old, new)
        elif kind is JOB:
            jobs.admit_change(old, new)
        elif kind is JOBSET:
            jobsets.admit_change(old, new)
        elif kind is NAMESPACE:
            new.setdefault("spec", {})

    def check_shape(self, kind: Kind, body: Json) -> None:
        """Refuse an object whose fields have values of the wrong type.

        Raises:
            ApiError: 422, naming the field.
        """
        try:
            msgspec.convert(body, type=_SHAPES.get(kind.storage, AnyObject))
        except msgspec.ValidationError as error:
            why, _, path = str(error).partition(" - at `$.")
            raise invalid(kind, body["metadata"].get("name", ""), path.rstrip("`") or "(body)", why) from error


def _admit_namespace(body: Json) -> None:
    name = body["metadata"]["name"]
    body["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    body["spec"] = {"finalizers": ["kubernetes"]}
    body["status"] = {"phase": "Active"}
