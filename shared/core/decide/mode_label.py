"""Decides what the mode label on the provisioner's own namespace stops. Pure and total.

The label works beside the settings: each of them can only forbid, so the stricter one applies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.settings import Mode

if TYPE_CHECKING:
    from shared.core.ports import Namespace

_ADDS_NODES = frozenset(
    {
        (Verdict.RESIZE, Reason.POOL_GROWS),
        (Verdict.DELETE, Reason.POOL_DIFFERS),  # a running pool, which could not be made again
    }
)
"""The acts that the mode no-create stops, beside every create."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A mode that stops acts in one cluster."""

    mode: Mode
    """`Mode.NO_CREATE` or `Mode.REPORT_ONLY`."""
    reason: Reason
    cause: str
    """Where the mode comes from, in words."""


def read_mode_label(name: str, namespace: Namespace | None) -> Stop | None:
    """Return what the provisioner's own namespace stops; None when it stops nothing.

    An absent namespace and an unknown value stop every act: a stop that is not understood must not
    be passed over.

    Args:
        name: the name of the namespace, from the settings.
        namespace: as it is now; None when it does not exist.
    """
    if namespace is None:
        cause = f"namespace {name}, whose label sets the mode, does not exist in this cluster"
        return Stop(mode=Mode.REPORT_ONLY, reason=Reason.MODE_UNKNOWN, cause=cause)
    value = namespace.labels.get(labels.MODE)
    label = f"the label {labels.MODE}={value} of namespace {name}"
    if value is None or value == Mode.ACTIVE:
        return None
    if value == Mode.NO_CREATE:
        return Stop(mode=Mode.NO_CREATE, reason=Reason.MODE_NO_CREATE, cause=label)
    if value == Mode.REPORT_ONLY:
        return Stop(mode=Mode.REPORT_ONLY, reason=Reason.MODE_REPORT_ONLY, cause=label)
    cause = f"{label} has an unknown value; valid: {', '.join(Mode)}"
    return Stop(mode=Mode.REPORT_ONLY, reason=Reason.MODE_UNKNOWN, cause=cause)


def decide_stop(act: Decision, stop: Stop | None) -> Decision | None:
    """Return the decision that replaces an act; None when the act may be done."""
    adds_nodes = act.verdict == Verdict.CREATE or (act.verdict, act.reason) in _ADDS_NODES
    if stop is None or (stop.mode == Mode.NO_CREATE and not adds_nodes):
        return None
    verdict = Verdict.REFUSE if adds_nodes else Verdict.KEEP
    remedy = "; an operator must correct that first" if adds_nodes else ""
    message = f"not done: {act.message}; the mode is {stop.mode}: {stop.cause}{remedy}"
    return Decision(verdict, stop.reason, message)
