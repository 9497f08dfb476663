"""Reads what the label of a namespace forbids: no create, or nothing at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.errors import ProvisionerError
from shared.plan.scene import Stop

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.engine.outside import Ports

MODES = {"active": Stop.NOTHING, "no-create": Stop.CREATES, "report-only": Stop.EVERYTHING}
StopAndCause = tuple[Stop, str]
_ORDER = list(Stop)


def read_stop(cluster: str, namespace: str, ports: Ports) -> StopAndCause:
    """Return what the label of one namespace forbids, and where it is.

    No answer and an unknown value forbid every act: a stop that is not understood must not be
    passed over. The same holds without our own namespace. A workload's may be gone with it, and
    its pools must go too.
    """
    try:
        seen = ports.clusters[cluster].get_namespace(namespace)
    except ProvisionerError as error:
        return Stop.EVERYTHING, f"namespace {namespace} could not be read: {error}"
    if seen is None:
        if namespace != ports.settings.own_namespace:
            return Stop.NOTHING, ""
        return Stop.EVERYTHING, f"namespace {namespace}, whose label may stop us, does not exist"
    value = seen.labels.get(labels.MODE)
    if value is None:
        return Stop.NOTHING, ""
    text = f"the label {labels.MODE}={value} of namespace {namespace}"
    if value not in MODES:
        return Stop.EVERYTHING, f"{text} has an unknown value; valid: {', '.join(MODES)}"
    return MODES[value], text


def find_strongest(stops: Iterable[StopAndCause]) -> StopAndCause:
    """Return the stop that forbids the most."""
    return max(stops, key=lambda each: _ORDER.index(each[0]))
