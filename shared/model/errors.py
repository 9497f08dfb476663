"""Errors, sorted by what the caller must do. `shared.deliver` acknowledges the message of each.

`Rejected` can never succeed, `Retryable` may in a later try; the others say what GKE answered, and
become decisions (`shared.model.decisions`), or that settings or this project are wrong. Edges and
parsers raise errors; decisions are values.
"""

from __future__ import annotations


class ProvisionerError(Exception):
    """Base of every error that this project raises on purpose."""

    reason: str = "internal_error"
    """A value of `shared.model.decisions.Reason`."""


class Rejected(ProvisionerError):
    """This input can never succeed, even if it is tried again.

    Args:
        message: What is wrong, for the person who sent the input.
        field: The path of the wrong field, for example ``data.uid``.
        value: The wrong value, as text.
        valid: What is valid instead.
    """

    reason = "event_malformed"

    def __init__(self, message: str, *, field: str = "", value: str = "", valid: str = "") -> None:
        self.field, self.value, self.valid = field, value, valid
        where = f"{field}: " if field else ""
        shown = f" (got {_shortened(value)!r})" if value else ""
        hint = f"; valid: {valid}" if valid else ""
        super().__init__(f"{where}{message}{shown}{hint}")


class MalformedEvent(Rejected):
    """The message is not a valid event."""

    reason = "event_malformed"


class UnknownCluster(Rejected):
    """The message names a cluster that is not in the settings."""

    reason = "cluster_unknown"


class UnsupportedShape(Rejected):
    """No machine or topology of the catalogue fits the request."""

    reason = "shape_unsupported"


class UnknownGpu(Rejected):
    """The GPU type that the pod selects is unknown, or the pod selects none."""

    reason = "gpu_unknown"


class SliceUnknown(Rejected):
    """It is not clear which slice of its workload the pod belongs to."""

    reason = "slice_unknown"


class PodContradictsSpec(Rejected):
    """The pod contradicts the pod template of its workload, or asks for more than it."""

    reason = "pod_contradicts_spec"


class OwnerKindUnknown(Rejected):
    """The controller of the pod is not a supported kind of workload."""

    reason = "owner_kind_unknown"


class TooManySlices(Rejected):
    """The workload has too many slices to list."""

    reason = "limit_reached"


class SlicesMayMix(Rejected):
    """Nothing keeps the pods of two slices on separate node pools."""

    reason = "slices_may_mix"


class HostsDiffer(Rejected):
    """The workload creates more or fewer pods per slice than the slice has hosts."""

    reason = "hosts_differ"


class NotAllowed(Rejected):
    """The operator's settings do not allow what the pod requests."""

    reason = "request_not_allowed"


class LabelBudgetExceeded(Rejected):
    """GKE does not accept node labels this long."""

    reason = "labels_over_budget"


class NameUnfit(LabelBudgetExceeded):
    """A name of the workload or of its slice is no value of a node label."""

    reason = "name_unfit"


class Retryable(ProvisionerError):
    """A later try may succeed; `retry_after_seconds` is the pause that the server advised."""

    reason = "unavailable"

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class Unavailable(Retryable):
    """The server failed or did not answer; it is unknown whether the request took effect."""

    reason = "unavailable"


class Throttled(Retryable):
    """The server received too many requests at once."""

    reason = "throttled"


class NoPlace(Throttled):
    """GKE is known to run as many operations as it allows, so nothing was sent.

    The end of an operation sends what waits, and so does each tick. Another delivery of the
    message does not help.
    """


class Busy(Retryable):
    """Another operation holds the pool or the cluster."""

    reason = "gke_busy"


class KindAbsent(Retryable):
    """The cluster does not know the kind of an object, so it cannot tell whether that exists.

    The tick counts it once, since only an operator installs a kind.
    """

    reason = "owner_unknown"


class StaleView(Retryable):
    """Two answers of the server contradict each other; a later look decides."""

    reason = "view_stale"


class OutOfTime(Retryable):
    """The time of this delivery is over before the work was done; nothing more was begun."""

    reason = "out_of_time"


class OldLook(StaleView):
    """What was read is too old to act on; nothing was changed."""


class AlreadyExists(ProvisionerError):
    """An object of that name exists; the caller reads it before it decides."""

    reason = "view_stale"


class NotFound(ProvisionerError):
    """The named object does not exist."""

    reason = "view_stale"


class ClusterNotFound(ProvisionerError):
    """GKE does not know this cluster: a wrong setting, not the end of a pool."""

    reason = "cluster_not_found"


class NoCapacity(ProvisionerError):
    """GKE created nothing, because the quota is used up."""

    reason = "quota_exceeded"


class ReservationUnfit(NoCapacity):
    """GKE created nothing, because the reservation is missing, is used up, or does not fit."""

    reason = "reservation_unfit"


class Denied(ProvisionerError):
    """The service account lacks a permission; an operator must grant it."""

    reason = "permission_denied"


class InvalidRequest(ProvisionerError):
    """GKE does not accept the request; the same request fails again."""

    reason = "request_invalid"
    status: str = ""
    """Google's canonical code; empty if the answer has none, as that of a proxy."""


class Misconfigured(ProvisionerError):
    """Settings are wrong; `problems` lists all of them. Raised at start-up only."""

    reason = "internal_error"

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__(
            "settings are wrong:\n" + "\n".join(f"  - {problem}" for problem in problems)
        )


class Broken(ProvisionerError):
    """A bug in this project; a retry does not help."""

    reason = "internal_error"


def _shortened(value: str, length_max: int = 120) -> str:
    return value if len(value) <= length_max else f"{value[: length_max - 1]}…"
