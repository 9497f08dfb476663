"""GKE's calls of the scenarios of all kinds: a scenario fails by too many of them.

All calls that name a pool of the workload count, also those that GKE refuses. Those of Compute
Engine have a quota of their own and do not count.
"""

from collections.abc import Sequence

from demo.settings import TOPIC
from tests.kinds.living import Lived
from tests.lives.running import Measured, measure

_CALLS_PER_POOL_MAX = 8
"""As for a JobSet: lives of two slices have sixteen in `tests.lives.catalogue`."""
_CALLS_PER_FURTHER_MESSAGE_MAX = 2
"""For a message about a pool that is there: of a slice that begins again, or of an elastic pool,
whose pods ask again while they wait. The create is refused and the pool looked at; or its size is
looked at and set."""
_CALLS_PER_SHRINKING_MAX = 3
"""An elastic pool is read again before its nodes are marked, closed and removed."""


def check_calls(lives: Sequence[Lived]) -> None:
    """Raise AssertionError if GKE was asked more often than for as many pools of a JobSet."""
    for life in lives:
        measured = measure(life.calls(), life.describe_end())
        assert measured.calls_in_all <= _allow(life, measured), (life.kind, life.name, measured)


def _allow(life: Lived, measured: Measured) -> int:
    demands = [each for each in life.cloud.messages(TOPIC) if each["namespace"] == life.namespace]
    asked = len(demands) if measured.creates else 0
    further = max(0, asked - measured.creates)
    shrinks = measured.calls.get("compute.instanceGroupManagers.deleteInstances OK", 0)
    return (
        _CALLS_PER_POOL_MAX * measured.creates
        + _CALLS_PER_FURTHER_MESSAGE_MAX * further
        + _CALLS_PER_SHRINKING_MAX * shrinks
    )
