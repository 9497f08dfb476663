"""GKE's calls of the scenarios of all kinds: how many each life made, and how many it may make.

A scenario fails by too many of them. What it came to is kept once its module is over, so that calls
that came late count too, for the table of docs/lives-kinds.md (`tests.lives.kinds_table`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from demo.stack.layout import TOPIC
from tests.lives.cloud import wait_for
from tests.lives.results import LifeOfKind, keep_scenario
from tests.lives.running import measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kinds.living import Lived
    from tests.lives.cloud import Cloud

_CALLS_PER_POOL_MAX = 8
"""As for a JobSet: lives of two slices have sixteen in `tests.lives.catalogue`."""
_CALLS_PER_FURTHER_MESSAGE_MAX = 2
"""For a message about a pool that is there: of a slice that begins again, or of an elastic pool,
whose pods ask again while they wait. The create is refused and the pool looked at; or its size is
looked at and set."""
_CALLS_PER_SHRINKING_MAX = 3
"""An elastic pool is read again before its nodes are marked, closed and removed."""
_SWEEPS = 2
"""That begin after a life's end. Once the second one has begun, the first one and all messages are
answered."""
_KEPT: dict[tuple[str, str], list[LifeOfKind]] = {}
"""What this process has kept, by cluster and test; a test with parameters is one scenario."""


def check_calls(lives: Sequence[Lived]) -> None:
    """Raise AssertionError if GKE was asked more often than for as many pools of a JobSet."""
    for life in lives:
        found = _count(life)
        assert found.measured.calls_in_all <= found.calls_most, found


def keep_calls(test: str, lives: Sequence[Lived]) -> None:
    """Write the results of some lives of a test, once the tests need their stack no more."""
    for cloud in {id(life.cloud): life.cloud for life in lives}.values():
        mine = [life for life in lives if life.cloud is cloud]
        cloud.at_end(partial(_keep, test, mine, _count_sweeps(cloud) + _SWEEPS))


def _keep(test: str, lives: Sequence[Lived], sweeps: int) -> None:
    cloud = lives[0].cloud
    wait_for("the sweep after the end", lambda: _count_sweeps(cloud) >= sweeps)
    cluster = "real" if cloud.is_real else "embedded"
    kept = _KEPT.setdefault((cluster, test), [])
    kept += [_count(life) for life in lives]
    keep_scenario(cluster, test, kept)


def _count(life: Lived) -> LifeOfKind:
    measured = measure(life.calls(), life.describe_end(), seconds=0)
    elastic = any("-any-" in each["pool"] for each in life.calls("CreateNodePool"))
    demands = (each for each in life.cloud.messages(TOPIC) if each["namespace"] == life.namespace)
    asked = sum(each["observed"] == "unschedulable" for each in demands) if measured.creates else 0
    further = max(0, asked - measured.creates)
    shrinks = measured.calls.get("compute.instanceGroupManagers.deleteInstances OK", 0)
    most = (
        _CALLS_PER_POOL_MAX * measured.creates
        + _CALLS_PER_FURTHER_MESSAGE_MAX * further
        + _CALLS_PER_SHRINKING_MAX * shrinks
    )
    return LifeOfKind(kind=life.kind, life=life.name, elastic=elastic, calls_most=most, measured=measured)


def _count_sweeps(cloud: Cloud) -> int:
    return sum(each["method"] == "ListNodePools" for each in cloud.calls())
