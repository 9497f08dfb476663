"""Does the outbox lose nothing, hold back when full, and end in time?"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec import structs

from exporter.health import Metrics
from exporter.publishing import BATCH_MAX, MERGE_SECONDS, Closed, Outbox, Pauses
from shared.model.errors import Denied, InvalidRequest, NotFound, ProvisionerError, Throttled, Unavailable
from shared.model.messages import Event, EventType, Message
from shared.model.names import ObjectName
from standins.kit.processes import PATIENCE_SECONDS, wait_until
from tests.clocks import StepClock
from tests.exporter.exporter_builders import CLUSTER


def an_event(uid: str) -> Event:
    name = ObjectName(kind="Pod", namespace="team-a", name=uid, uid=uid)
    return Event(type=EventType.DEMAND, cluster=CLUSTER, subject=name)


def a_workload_event(name: str, pod: str = "pod-0") -> Event:
    subject = ObjectName(kind="JobSet", namespace="team-a", name=name, uid="")
    return structs.replace(an_event(pod), subject=subject, cause=pod)


class FakeTopic:
    """Takes batches; fails as planned; can be held shut."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.failures: list[ProvisionerError] = []
        self.refuses = ""
        self.attempts = 0
        self.open = threading.Event()
        self.open.set()
        self.changed = threading.Condition()

    def publish(self, messages: Sequence[Message]) -> list[str]:
        names = [message.attributes["ce-subject"].rsplit("/", 1)[-1] for message in messages]
        with self.changed:
            self.attempts += 1
            self.changed.notify_all()
        self.open.wait(60)
        if self.failures:
            raise self.failures.pop(0)
        if self.refuses in names:
            raise InvalidRequest("this one never")
        with self.changed:
            self.batches.append(names)
            self.changed.notify_all()
        return [str(index) for index in range(len(names))]

    @property
    def stored(self) -> list[str]:
        return [name for batch in self.batches for name in batch]

    def wait_for(self, condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, seconds), f"stored: {self.stored}"


@pytest.fixture
def topic() -> FakeTopic:
    return FakeTopic()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def outbox(topic: FakeTopic, metrics: Metrics) -> Iterator[Outbox]:
    box = Outbox(
        topic.publish,
        capacity=BATCH_MAX * 3,
        metrics=metrics,
        pauses=Pauses(first_seconds=0.001, longest_seconds=0.005),
    )
    with running(box, topic):
        yield box


@contextmanager
def running(box: Outbox, topic: FakeTopic) -> Iterator[None]:
    thread = threading.Thread(target=box.run, daemon=True)
    thread.start()
    yield
    topic.open.set()
    box.stop()
    thread.join(30)
    assert not thread.is_alive()


@contextmanager
def frozen(topic: FakeTopic, metrics: Metrics) -> Iterator[tuple[Outbox, StepClock]]:
    """An outbox whose seconds pass as the test says: what it publishes did not wait for one."""
    clock = StepClock(time.monotonic())
    box = Outbox(topic.publish, capacity=BATCH_MAX, metrics=metrics, clock=clock.now)
    with running(box, topic):
        yield box, clock


DEMANDS = {"type": str(EventType.DEMAND)}


def read_metric(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"tpu_provisioner_exporter_{name}", labels)


def put(box: Outbox, *names: str) -> None:
    for name in names:
        box.put(an_event(name), time.monotonic())


def put_leaders(box: Outbox, name: str, *pods: str) -> None:
    for pod in pods:
        box.put(a_workload_event(name, pod), time.monotonic())


def test_a_burst_of_one_workload_gives_two_messages_the_second_after_all_were_seen(
    topic: FakeTopic, metrics: Metrics
) -> None:
    with frozen(topic, metrics) as (box, clock):
        put_leaders(box, "train", *[f"pod-{each}" for each in range(64)])
        wait_until(lambda: len(box) == 1)
        assert topic.batches == [["train"]]
        clock.advance(MERGE_SECONDS)
        topic.wait_for(lambda: topic.batches == [["train"], ["train"]])
        assert box.drain(30) == 0


def test_other_workloads_and_other_events_do_not_wait_for_a_burst(topic: FakeTopic, metrics: Metrics) -> None:
    with frozen(topic, metrics) as (box, _):
        put_leaders(box, "train", "a", "b")
        put_leaders(box, "other", "c")
        put(box, "bare", "bare")
        topic.wait_for(lambda: topic.stored == ["train", "other", "bare", "bare"])


def test_what_gathers_during_a_batch_goes_out_together(outbox: Outbox, topic: FakeTopic) -> None:
    topic.open.clear()
    put(outbox, "first")
    topic.wait_for(lambda: topic.attempts == 1)
    put(outbox, *[f"e{n}" for n in range(BATCH_MAX + 1)])
    topic.open.set()
    assert outbox.drain(30) == 0
    assert [len(batch) for batch in topic.batches] == [1, BATCH_MAX, 1]
    assert topic.stored == ["first", *[f"e{n}" for n in range(BATCH_MAX + 1)]]


@pytest.mark.parametrize("error", [Unavailable, Throttled, Denied, NotFound])
def test_a_failed_publish_is_tried_again_until_it_succeeds(
    outbox: Outbox, topic: FakeTopic, metrics: Metrics, error: type[ProvisionerError]
) -> None:
    topic.failures = [error("no"), error("no"), error("no")]
    put(outbox, "a")
    assert outbox.drain(30) == 0
    assert topic.stored == ["a"]
    assert read_metric(metrics, "publish_failures_total", reason=error.reason) == 3


@pytest.mark.parametrize("names", [["bad"], ["bad", "good", "better"], ["good", "bad", "better"], ["good", "bad"]])
def test_one_message_that_the_service_refuses_alone_is_dropped_and_named(
    topic: FakeTopic, metrics: Metrics, caplog: pytest.LogCaptureFixture, names: list[str]
) -> None:
    topic.refuses = "bad"
    box = Outbox(topic.publish, capacity=3, metrics=metrics, pauses=Pauses(first_seconds=60))
    put(box, *names)
    with running(box, topic):
        assert box.drain(30) == 0
    assert topic.stored == [name for name in names if name != "bad"]
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert vars(record)["subject"] == "namespaces/team-a/pods/bad"
    assert vars(record)["problem"] == "this one never"


def test_a_full_buffer_holds_back_whoever_adds_and_beats_meanwhile(topic: FakeTopic, metrics: Metrics) -> None:
    topic.open.clear()
    outbox = Outbox(topic.publish, capacity=2, metrics=metrics)
    with running(outbox, topic):
        put(outbox, "a", "b")
        beats = threading.Event()
        added = threading.Event()

        def add() -> None:
            outbox.put(an_event("c"), time.monotonic(), beats.set)
            added.set()

        threading.Thread(target=add, daemon=True).start()
        assert beats.wait(30)
        assert not added.is_set()
        assert len(outbox) == 2
        topic.open.set()
        assert added.wait(30)
        assert outbox.drain(30) == 0
    assert topic.stored == ["a", "b", "c"]


def test_closing_frees_whoever_waits_for_room(topic: FakeTopic, metrics: Metrics) -> None:
    topic.open.clear()
    outbox = Outbox(topic.publish, capacity=1, metrics=metrics)
    with running(outbox, topic):
        put(outbox, "a")
        outcome: list[Any] = []

        def add() -> None:
            try:
                put(outbox, "b")
            except Closed as error:
                outcome.append(error)

        waiting = threading.Thread(target=add, daemon=True)
        waiting.start()
        assert outbox.drain(0.05) == 1
        waiting.join(30)
        assert outcome
        with pytest.raises(Closed):
            put(outbox, "c")


def test_nothing_is_published_while_it_may_not(topic: FakeTopic, metrics: Metrics) -> None:
    outbox = Outbox(topic.publish, capacity=9, metrics=metrics, may_publish=lambda: False)
    with running(outbox, topic):
        put(outbox, "a")
        assert outbox.drain(0.1) == 1
    assert topic.attempts == 0


def test_pauses_grow_are_bounded_jittered_and_heed_advice() -> None:
    pauses = Pauses(first_seconds=1, longest_seconds=4)
    found = [pauses.next_seconds() for _ in range(6)]
    for pause, longest in zip(found, (1, 2, 4, 4, 4, 4), strict=True):
        assert longest / 2 <= pause <= longest
    assert pauses.next_seconds(advised_seconds=30) == 30
    pauses.reset()
    assert pauses.next_seconds() <= 1
