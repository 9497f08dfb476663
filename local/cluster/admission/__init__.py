"""What a write turns into before it is stored: defaults, validation, the built-in plugins and JobSet's webhooks.

`Admission` picks the rules of a kind; each module holds the rules of one kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from local.cluster.admission import definitions, jobs, jobsets, leases, nodes, pods
from local.cluster.admission.refusals import read
from local.cluster.jobset_views import JobSetView
from local.cluster.store.kinds import DEFINITION, JOB, JOBSET, LEASE, NAMESPACE, NODE, POD, Kind
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
            ApiError: 400, 403 or 422.
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
        elif kind is LEASE:
            leases.admit(body)

    def update(self, kind: Kind, old: Json, new: Json) -> None:
        """Default and check a changed object in place.

        Raises:
            ApiError: 400, 403 or 422.
        """
        # A new JobSet is read by its webhook first, a changed one by its schema only.
        self.check_shape(kind, new, by_schema=kind is JOBSET)
        if kind is POD:
            pods.admit_change(old, new)
        elif kind is JOB:
            jobs.admit_change(old, new)
        elif kind is JOBSET:
            jobsets.admit_change(old, new)
        elif kind is NODE:
            nodes.admit_change(new)
        elif kind is NAMESPACE:
            new.setdefault("spec", {})
        elif kind is LEASE:
            leases.admit(new)

    def check_shape(self, kind: Kind, body: Json, *, by_schema: bool = False) -> None:
        """Refuse an object whose fields have values of the wrong type.

        Raises:
            ApiError: 400 or 422, naming the field.
        """
        read(kind, body, _SHAPES.get(kind.storage, AnyObject), by_schema=by_schema)


def _admit_namespace(body: Json) -> None:
    name = body["metadata"]["name"]
    body["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    body["spec"] = {"finalizers": ["kubernetes"]}
    body["status"] = {"phase": "Active"}
