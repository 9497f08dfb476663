"""Does every demand of a workload get a message after it, and no more than one in a second?"""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.publishing import MERGE_SECONDS, Merging, Waiting
from shared.model.messages import Event
from shared.model.names import ObjectName
from tests.builders import a_demand_event, a_workload_demand


def a_waiting(pod: str = "p", namespace: str = "default", uid: str = "") -> Waiting:
    subject = a_workload_demand().subject
    named = type(subject)(kind=subject.kind, namespace=namespace, name=subject.name, uid=uid)
    return Waiting(a_workload_demand(subject=named, cause=pod), 0.0)


class Line:
    """Lets events pass as the outbox does; time is what the test says."""

    def __init__(self) -> None:
        self.merging = Merging()
        self.published: list[tuple[float, Event]] = []

    def put(self, now: float, waiting: Waiting) -> None:
        if self.merging.let_pass(waiting, now):
            self.published.append((now, waiting.event))

    def wait(self, until: float, now: float) -> float:
        """Release at each moment that is named, as the publishing thread does."""
        while (at := now + self.merging.find_seconds_left(now)) <= until:
            now = max(at, now)
            self.published += [(now, each.event) for each in self.merging.release(now)]
        return until


def publish(moments: Sequence[float]) -> Line:
    line, now = Line(), 0.0
    for number, at in enumerate(sorted(moments)):
        now = line.wait(at, now)
        line.put(now, a_waiting(f"p{number}"))
    line.wait(now + 3 * MERGE_SECONDS, now)
    return line


def times(line: Line) -> list[float]:
    return [at for at, _ in line.published]


def test_the_first_passes_and_one_covers_all_others_of_its_second() -> None:
    assert times(publish([0])) == [0]
    assert times(publish([0, 0.25, 0.5, 0.75])) == [0, 1]
    assert [event.cause for _, event in publish([0, 0.25, 0.5]).published] == ["p0", "p1"]


@pytest.mark.parametrize("other", [{"namespace": "other"}, {"uid": "of the one in its place"}])
def test_each_workload_has_its_own_second(other: dict[str, str]) -> None:
    line = Line()
    line.put(0, a_waiting())
    line.put(0.5, a_waiting(**other))
    assert times(line) == [0, 0.5]


def test_a_pod_always_passes() -> None:
    line = Line()
    event = a_demand_event(subject=ObjectName(kind="Pod", namespace="default", name="p", uid="u"))
    for _ in range(2):
        line.put(0, Waiting(event, 0.0))
    assert times(line) == [0] * 2
    assert not line.merging._passed_at


MOMENTS = st.lists(st.integers(0, 40).map(lambda quarters: quarters / 4), min_size=1, max_size=30)


@given(moments=MOMENTS)
def test_each_demand_has_a_message_within_a_second_after_it_and_nothing_is_remembered(
    moments: list[float],
) -> None:
    line = publish(moments)
    sent = times(line)
    assert all(any(at <= each <= at + MERGE_SECONDS for each in sent) for at in moments)
    assert all(later - earlier >= MERGE_SECONDS for earlier, later in itertools.pairwise(sent))
    assert not line.merging._passed_at
    assert not line.merging.kept
