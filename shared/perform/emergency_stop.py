"""Reads, right before each act, whether the cluster's mode label stops the act."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from shared.core.decide.mode_label import decide_stop, read_mode_label

if TYPE_CHECKING:
    from shared.core.decide.mode_label import Stop
    from shared.core.decisions import Decision
    from shared.core.ports import Ports

_LOG = logging.getLogger("emergency_stop")


def find_stop(cluster: str, act: Decision, ports: Ports) -> Decision | None:
    """Return the decision that replaces an act which the label stops; None when it may be done.

    Raises:
        Retryable: the label could not be read, so the act must not be done.
        Denied: the permission to read the label is missing, so the act must not be done.
    """
    stopped = decide_stop(act, read_stop(cluster, ports))
    if stopped is not None:
        fields = {"cluster": cluster, "decision": str(stopped.verdict), "reason": str(stopped.reason)}
        _LOG.warning("%s", stopped.message, extra=fields)
    return stopped


def read_stop(cluster: str, ports: Ports) -> Stop | None:
    """Return what the label of the provisioner's own namespace stops now; None: nothing.

    Raises:
        Retryable: the namespace could not be read.
        Denied: the permission to read it is missing.
    """
    name = ports.settings.own_namespace
    return read_mode_label(name, ports.clusters[cluster].get_namespace(name))
