"""What a write becomes before it is stored: defaults, checks, plugins, JobSet's webhooks.

`Admission` picks the rules of a kind. Each module holds the rules of one kind. This package imports
`objects` and `store`.
"""

from typing import Any

from standins.cluster.admission import job_admission, jobset_admission, node_admission, pod_admission
from standins.cluster.admission.refusals import read
from standins.cluster.clock import Clock
from standins.cluster.objects.jobset_shapes import JobSetView
from standins.cluster.objects.shapes import AnyObject, JobView, NodeView, PodView
from standins.cluster.store.kinds import JOB, JOBSET, NAMESPACE, NODE, POD, Kind
from standins.cluster.store.object_store import Store

Json = dict[str, Any]

_SHAPES: dict[Kind, type] = {POD: PodView, NODE: NodeView, JOB: JobView, JOBSET: JobSetView}


class Admission:
    """The rules for writes."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def create(self, kind: Kind, body: Json) -> None:
        """Default and check a new object in place. Raises ApiError: 400, 403 or 422."""
        self.check_shape(kind, body)
        if kind is POD:
            pod_admission.admit_new(self._store, body, self._clock.timestamp())
        elif kind is NODE:
            node_admission.admit_new(body)
        elif kind is JOB:
            job_admission.admit_new(body)
        elif kind is JOBSET:
            jobset_admission.admit_new(body)
        elif kind is NAMESPACE:
            _admit_namespace(body)

    def update(self, kind: Kind, old: Json, new: Json) -> None:
        """Default and check a changed object in place. Raises ApiError: 400, 403 or 422."""
        self.check_shape(kind, new)
        if kind is POD:
            pod_admission.admit_change(old, new)
        elif kind is JOB:
            job_admission.admit_change(old, new)
        elif kind is JOBSET:
            jobset_admission.admit_change(old, new)
        elif kind is NODE:
            node_admission.admit_change(new)
        elif kind is NAMESPACE:
            new.setdefault("spec", {})

    def check_shape(self, kind: Kind, body: Json) -> None:
        """Refuse an object whose fields have values of the wrong type.

        Raises ApiError: 400, naming the field.
        """
        read(kind, body, _SHAPES.get(kind, AnyObject))


def _admit_namespace(body: Json) -> None:
    name = body["metadata"]["name"]
    body["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    body["spec"] = {"finalizers": ["kubernetes"]}
    body["status"] = {"phase": "Active"}
