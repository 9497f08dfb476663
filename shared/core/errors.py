"""The taxonomy of errors, sorted by what the caller must do; `shared.answer` acknowledges each leaf.

::

    ProvisionerError                 carries a reason, and its facts as text an operator can act on
    ├─ Rejected                      this input can never succeed
    │   ├─ MalformedEvent            the message cannot be read
    │   ├─ UnsupportedShape          no machine or slice has this shape
    │   ├─ UnknownGpu                no such GPU type
    │   ├─ SliceUnknown              the pod's slice cannot be told from what it says
    │   ├─ OwnerKindUnknown          the pod's controller is of no kind that is known here
    │   ├─ SlicesMayMix              nothing keeps the pods of two slices apart
    │   ├─ HostsDiffer               the workload's pods per slice are not the slice's hosts
    │   └─ ForeignObject             what it names is not ours to touch
    ├─ Retryable                     the world may be different later
    │   ├─ Unavailable               5xx, connection lost, deadline: the outcome is unknown
    │   ├─ Throttled                 429
    │   ├─ Busy                      another operation holds the pool or the cluster
    │   └─ StaleView                 two readings contradict each other
    ├─ AlreadyExists                 GKE has a pool of that name: look, then decide again
    ├─ NotFound                      what was named is not there
    ├─ NoCapacity                    quota or stock refused the request
    ├─ Denied                        401 or 403: needs a person
    ├─ InvalidRequest                GKE refused the request as wrong: retrying it unchanged is useless
    ├─ Misconfigured                 start-up only
    └─ Broken                        an invariant of ours is false: a bug

Only edges and parsers raise these; decisions are values (`shared.core.decisions`).
"""

from __future__ import annotations


class ProvisionerError(Exception):
    """Base of everything this project raises on purpose."""

    reason: str = "internal_error"
    """A word of the closed list in `shared.core.decisions.Reason`."""


class Rejected(ProvisionerError):
    """This input can never succeed, however often it is tried.

    Args:
        message: What is wrong, in a sentence for the person who sent it.
        field: The path of the offending field, for example ``data.uid``.
        value: The offending value, as text.
        valid: What would be valid, in words.
    """

    reason = "event_malformed"

    def __init__(self, message: str, *, field: str = "", value: str = "", valid: str = "") -> None:
        self.field, self.value, self.valid = field, value, valid
        where = f"{field}: " if field else ""
        shown = f" (got {_shortened(value)!r})" if value else ""
        hint = f"; valid: {valid}" if valid else ""
        super().__init__(f"{where}{message}{shown}{hint}")


class MalformedEvent(Rejected):
    """The message cannot be read as one of our events."""

    reason = "event_malformed"


class UnknownCluster(Rejected):
    """The message names a cluster that this deployment does not serve."""

    reason = "cluster_unknown"


class UnsupportedShape(Rejected):
    """No machine or slice of the catalogue has the requested shape."""

    reason = "shape_unsupported"


class UnknownGpu(Rejected):
    """A pod asks for a GPU type that GKE does not have, or for none in particular."""

    reason = "gpu_unknown"


class SliceUnknown(Rejected):
    """A live workload's pod does not say enough to tell its slice from the others; raised by entries of kinds."""

    reason = "slice_unknown"


class OwnerKindUnknown(Rejected):
    """A pod's controller is of a kind that nobody here can ask what it wants."""

    reason = "owner_kind_unknown"


class TooManySlices(Rejected):
    """A workload asks for more slices than anybody would list."""

    reason = "limit_reached"


class SlicesMayMix(Rejected):
    """Nothing keeps the pods of two slices apart on nodes, so that neither might ever be whole."""

    reason = "slices_may_mix"


class HostsDiffer(Rejected):
    """A workload makes another number of pods per slice than the slice has hosts."""

    reason = "hosts_differ"


class ForeignObject(Rejected):
    """The named object is not one that this project may act on."""

    reason = "foreign_labels"


class NotAllowed(Rejected):
    """A pod's author asked for something outside the operator's allow-lists."""

    reason = "request_not_allowed"


class LabelBudgetExceeded(Rejected):
    """The node labels of one pool would exceed what GKE accepts."""

    reason = "labels_over_budget"


class Retryable(ProvisionerError):
    """The world may be different later; `retry_after_seconds` is the pause that the other side advised."""

    reason = "unavailable"

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class Unavailable(Retryable):
    """The other side failed or could not be reached; whether the order took effect is unknown."""

    reason = "unavailable"


class Throttled(Retryable):
    """Too many requests or operations at once."""

    reason = "throttled"


class Busy(Retryable):
    """Another operation holds the pool or the cluster."""

    reason = "gke_busy"


class StaleView(Retryable):
    """Two readings of the world contradict each other; a later one will settle it."""

    reason = "view_stale"


class AlreadyExists(ProvisionerError):
    """An object of that name exists; it is looked at before anything is concluded."""

    reason = "view_stale"


class NotFound(ProvisionerError):
    """The named object does not exist."""

    reason = "view_stale"


class ClusterNotFound(ProvisionerError):
    """GKE knows no cluster of that name: configuration, not the end of a pool."""

    reason = "cluster_not_found"


class NoCapacity(ProvisionerError):
    """GKE refused for want of quota before anything was created."""

    reason = "quota_exceeded"


class Denied(ProvisionerError):
    """An identity lacks a permission; a person must grant it."""

    reason = "permission_denied"


class InvalidRequest(ProvisionerError):
    """GKE refused the request as wrong; the same request will be refused again."""

    reason = "request_invalid"


class Misconfigured(ProvisionerError):
    """Settings are wrong; `problems` lists every one of them. Raised at start-up only."""

    reason = "internal_error"

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("settings are wrong:\n" + "\n".join(f"  - {problem}" for problem in problems))


class Broken(ProvisionerError):
    """An invariant of this project is false; a bug to be mended, never to be retried away."""

    reason = "internal_error"


def _shortened(value: str, length_max: int = 120) -> str:
    return value if len(value) <= length_max else f"{value[: length_max - 1]}…"
