"""Kueue's Workloads and admission checks, as plain values.

Kueue has one Workload for each object that it suspends. It reserves quota for it, waits until each
admission check of the queue is Ready, and then resumes the object:
https://kueue.sigs.k8s.io/docs/concepts/admission_check/.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from shared.model.names import ObjectName

NOBODY = ObjectName(kind="", namespace="", name="", uid="")


class Check(Struct, frozen=True, kw_only=True):
    """One AdmissionCheck that this provisioner answers."""

    name: str
    active: bool  # whether its condition ``Active`` is True, without which no queue uses it
    generation: int = 0


class CheckState(Struct, frozen=True, kw_only=True):
    """The state of one check of a Workload."""

    name: str
    state: str  # ``Pending``, ``Ready``, ``Retry`` or ``Rejected``
    message: str = ""
    since: str = ""  # the time of the last change of `state`, as the API writes it
    retries: int = 0  # how often it has been ``Retry``, as Kueue counts


class QueuedWorkload(Struct, frozen=True, kw_only=True):
    """One Workload of Kueue."""

    namespace: str
    name: str
    uid: str
    version: str  # ``metadata.resourceVersion``
    owner: ObjectName = NOBODY  # the object that it is for
    flavors: dict[str, tuple[str, ...]] = {}
    """By pod set, the flavors whose node labels its pods get."""
    counts: dict[str, int] = {}  # by pod set, for how many pods it has quota
    unmarked: tuple[str, ...] = ()
    """The pod sets whose pods do not have the label `CAPACITY_CHECKED` by themselves."""
    checks: tuple[CheckState, ...] = ()
    reserved_at: float | None = None
    """Unix seconds since when it has quota; None if the API does not say it."""
    lost_at: float | None = None
    """Unix seconds since when it has no quota, or has to give it back; None if that is not so."""
    holds_quota: bool = False
    """It has quota, and no check makes it lose that, so it runs once all checks are Ready."""

    def __str__(self) -> str:
        return f"Workload {self.namespace}/{self.name}"

    def find_pending(self, names: Iterable[str]) -> CheckState | None:
        """Return the first of its checks that is Pending and has one of these names."""
        ours = set(names)
        pending = (each for each in self.checks if each.state == "Pending" and each.name in ours)
        return next(pending, None)
