"""Finds selectors that are almost one of GKE's keys: no node has such a label."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from shared.model import labels
from shared.needs.selectors import COPIED_FROM_SELECTORS, SET_BY_GKE

if TYPE_CHECKING:
    from shared.model.workloads import PodTemplate

_DOMAIN = "cloud.google.com/"
_KNOWN = {
    key.removeprefix(_DOMAIN): key
    for key in (
        *(SET_BY_GKE | COPIED_FROM_SELECTORS),
        *(labels.ACCELERATOR_COUNT, labels.COMPUTE_CLASS, labels.NODE_POOL, labels.MACHINE_FAMILY),
        *(labels.RESERVATION_AFFINITY, labels.MAX_RUN_DURATION, labels.PROVISIONING_REQUEST),
    )
    if key.startswith(_DOMAIN)
}
_CLOSE = 0.87
"""Of difflib: one letter of ten."""


def find_near_key(template: PodTemplate) -> tuple[str, str] | None:
    """Return a selector that is no key of GKE, and the key that it almost is; None without one.

    Keys of other domains than Google's are the author's own.
    """
    for key in template.selection:
        domain, _, name = key.rpartition("/")
        if key not in _KNOWN.values() and (not domain or domain.endswith("google.com")):
            near = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=_CLOSE)
            if near:
                return key, _KNOWN[near[0]]
    return None
