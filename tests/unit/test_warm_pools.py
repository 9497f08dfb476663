"""Idle pools: since when they count, and for how long they stay."""

import pytest
from shared.core.decide.warm_pools import find_idle_since

from shared.engine.outside import SurplusMark
from shared.model import labels
from shared.model.names import build_owner_labels, parse_owner
from shared.needs.demand import Demand
from tests.builders import NOW, a_claim, a_demand, a_pod, a_pool, a_template, settings


def test_the_oldest_mark_that_can_be_true_counts() -> None:
    marks = {
        "old": SurplusMark(NOW - 600, closed=False),
        "repaired": SurplusMark(NOW - 60, closed=False),
        "new": None,
        "ahead": SurplusMark(NOW + 3600, closed=False),
    }

    assert find_idle_since(marks, NOW) == NOW - 600
    assert find_idle_since({"new": None, "ahead": marks["ahead"]}, NOW) is None
    assert find_idle_since({}, NOW) is None


def test_the_idle_time_is_written_once_and_read_from_the_label() -> None:
    pod_labels = build_owner_labels(
        a_claim(), attempt=0, created_at=1, fingerprint="1-a", optional={labels.IDLE: 900}
    )

    owner = parse_owner(pod_labels)
    assert owner is not None
    assert owner.idle_seconds == 900
    assert labels.IDLE not in build_owner_labels(a_claim(), attempt=0, created_at=1, fingerprint="1-a")


@pytest.mark.parametrize("value", ["", "soon", "-5", "1.5"])
def test_a_label_that_is_no_number_means_no_idle_time(value: str) -> None:
    owner = a_pool(extra_labels={labels.IDLE: value}).owner

    assert owner is not None
    assert owner.idle_seconds == 0


def test_the_idle_time_does_not_change_the_fingerprint() -> None:
    template = a_template(node_pool_affinity=True)

    def ask(idle_seconds: int) -> Demand:
        return a_demand(pod=a_pod(template=template), use=settings(idle_seconds=idle_seconds))

    assert (ask(0).idle_seconds, ask(600).idle_seconds) == (0, 600)
    assert ask(0).fingerprint == ask(600).fingerprint
