"""Why a group could not grow, in the words of GKE's Events, and how long it is left alone then.

The words and codes are those of GKE's published autoscaler (`k8s.io/gke-autoscaling`, package
`events`) and of https://github.com/kubernetes/autoscaler (`cloudprovider/gce`, `utils/backoff`).
"""

import json
import re
from dataclasses import dataclass

from standins.autoscaler.picture import InstanceError

_LONGEST_MESSAGE = 250
_WORDS = {
    r"^(ZONE_)?RESOURCE_POOL_EXHAUSTED|^INSUFFICIENT_CAPACITY": "GCE out of resources",
    "QUOTA": "GCE quota exceeded",
    "IP_SPACE_EXHAUSTED": "IP space exhausted",
    "Specified reservations? .* do(es)? not exist": "Reservation not found or incorrectly shared",
    "Specified reservation .* does not have available resources": "Reservation capacity exceeded",
}
"""By code and message of the fake GKE; GKE's own autoscaler knows six more messages."""


def describe_error(error: InstanceError) -> str:
    """Return GKE's words for what an instance says."""
    text = f"{error.code} {error.message}"
    return next((words for pattern, words in _WORDS.items() if re.search(pattern, text)), "Internal error")


def describe_timeout(group: str) -> str:
    """Return GKE's words for nodes that did not come in time."""
    return f"Some nodes in node group {json.dumps([group])} failed to appear in time"


def describe_failure(zone: str, words: str) -> str:
    """Return the message of a FailedScaleUp Event."""
    text = (
        f"Node scale up in zones {zone} associated with this pod failed: {words}. "
        "Pod is at risk of not being scheduled."
    )
    return text[:_LONGEST_MESSAGE]


@dataclass(frozen=True, slots=True)
class Pause:
    """The back-off of a group: until when, how long it is, and when the group failed last."""

    until: float
    seconds: float
    failed_at: float


class Backoff:
    """Doubles the pause of a group with each failure; seconds."""

    def __init__(self, first: float, longest: float, reset: float) -> None:
        self._first, self._longest, self._reset = first, longest, reset
        self._pauses: dict[str, Pause] = {}

    def fail(self, group: str, now: float) -> None:
        """Begin a pause, twice as long as the last one unless that was long ago."""
        last = self._pauses.get(group)
        seconds = self._first
        if last is not None and now - last.failed_at < self._reset:
            seconds = min(last.seconds * 2, self._longest) if now >= last.until else last.seconds
        self._pauses[group] = Pause(now + seconds, seconds, now)

    def is_paused(self, group: str, now: float) -> bool:
        """Return whether a group is left alone now."""
        pause = self._pauses.get(group)
        return pause is not None and now < pause.until

    def list_ends(self) -> list[float]:
        """Return when the pauses end."""
        return [each.until for each in self._pauses.values()]

    def forget(self, group: str) -> None:
        """Drop the pauses of a group that grew, or that is gone."""
        self._pauses.pop(group, None)
