"""Does the outbox lose nothing, hold back when full, and end in time?"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec import structs

from exporter.health import Metrics
from exporter.publishing import BATCH_MAX, Closed, Outbox, Pauses
from shared.model import errors
from shared.model.messages import Event, Message
from standins.kit.processes import PATIENCE_SECONDS, wait_until
from tests.builders import a_demand_event


def an_event(name: str) -> Event:
    event = a_demand_event()
    subject = structs.replace(event.subject, kind="Pod", name=name)
    return structs.replace(event, subject=subject, cause=name)


class FakeTopic:
    """Takes batches; fails as planned; can be held shut."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.failures: list[errors.ProvisionerError] = []
        self.attempts = 0
        self.open = threading.Event()
        self.open.set()

    def publish(self, messages: Sequence[Message]) -> list[str]:
        names = [message.attributes["ce-subject"].rsplit("/", 1)[-1] for message in messages]
        self.attempts += 1
        self.open.wait(60)
        if self.failures:
            raise self.failures.pop(0)
        if "bad" in names:
            raise errors.InvalidRequest("this one never")
        self.batches.append(names)
        return [str(index) for index in range(len(names))]

    @property
    def stored(self) -> list[str]:
        return [name for batch in self.batches for name in batch]


@pytest.fixture
def topic() -> FakeTopic:
    return FakeTopic()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def start(topic: FakeTopic, metrics: Metrics) -> Iterator[Callable[..., Outbox]]:
    """Return what opens an outbox that publishes these pods, until the test ends."""
    running: list[tuple[Outbox, threading.Thread]] = []

    def begin(*names: str, **options: Any) -> Outbox:
        pauses = Pauses(first_seconds=0.001, longest_seconds=0.005)
        quick: dict[str, Any] = {"capacity": BATCH_MAX * 3, "pauses": pauses}
        box = Outbox(topic.publish, metrics=metrics, **quick | options)
        put(box, *names)
        thread = threading.Thread(target=box.run, daemon=True)
        running.append((box, thread))
        thread.start()
        return box

    yield begin
    topic.open.set()
    for box, thread in running:
        box.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


@contextmanager
def adding(box: Outbox, name: str, beat: Callable[[], None]) -> Iterator[list[str]]:
    """Add an event in a thread of its own; yield how that ended, when it has."""
    ends: list[str] = []

    def add() -> None:
        try:
            box.put(an_event(name), time.monotonic(), beat)
            ends.append("added")
        except Closed:
            ends.append("closed")

    thread = threading.Thread(target=add, daemon=True)
    thread.start()
    yield ends
    thread.join(PATIENCE_SECONDS)


def put(box: Outbox, *names: str) -> None:
    for name in names:
        box.put(an_event(name), time.monotonic())


def test_what_gathers_during_a_batch_goes_out_together(start: Callable[..., Outbox], topic: FakeTopic) -> None:
    topic.open.clear()
    box, many = start("first"), [f"e{n}" for n in range(BATCH_MAX + 1)]
    wait_until(lambda: topic.attempts == 1)
    put(box, *many)
    topic.open.set()
    wait_until(lambda: len(box) == 0)
    assert [len(batch) for batch in topic.batches] == [1, BATCH_MAX, 1]
    assert topic.stored == ["first", *many]


@pytest.mark.parametrize("error", [errors.Unavailable, errors.Throttled, errors.Denied, errors.NotFound])
def test_a_failed_publish_is_tried_again_until_it_succeeds(
    start: Callable[..., Outbox], topic: FakeTopic, metrics: Metrics, error: type[errors.ProvisionerError]
) -> None:
    topic.failures = [error("no"), error("no"), error("no")]
    start("a")
    wait_until(lambda: topic.stored)
    assert topic.stored == ["a"]
    failures, of = "tpu_provisioner_exporter_publish_failures_total", {"reason": str(error.reason)}
    assert metrics.registry.get_sample_value(failures, of) == 3


@pytest.mark.parametrize("names", [["bad"], ["bad", "good", "better"], ["good", "bad", "better"], ["good", "bad"]])
def test_one_message_that_the_service_refuses_alone_is_dropped_and_named(
    start: Callable[..., Outbox], topic: FakeTopic, caplog: pytest.LogCaptureFixture, names: list[str]
) -> None:
    box = start(*names, pauses=Pauses(first_seconds=60))
    wait_until(lambda: len(box) == 0)
    assert topic.stored == [name for name in names if name != "bad"]
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert vars(record)["subject"] == "namespaces/default/pods/bad"
    assert vars(record)["problem"] == "this one never"


def test_a_full_buffer_holds_back_whoever_adds_and_beats_meanwhile(
    start: Callable[..., Outbox], topic: FakeTopic
) -> None:
    topic.open.clear()
    box, beats = start("a", "b", capacity=2), threading.Event()
    with adding(box, "c", beats.set) as ends:
        assert beats.wait(30)
        assert (ends, len(box)) == ([], 2)
        topic.open.set()
    assert ends == ["added"]
    wait_until(lambda: len(box) == 0)
    assert topic.stored == ["a", "b", "c"]


def test_closing_frees_whoever_waits_for_room(start: Callable[..., Outbox], topic: FakeTopic) -> None:
    topic.open.clear()
    box = start("a", capacity=1)
    with adding(box, "b", lambda: None) as ends:
        box.stop()
    assert ends == ["closed"]
    with pytest.raises(Closed):
        put(box, "c")


def test_nothing_is_published_while_it_may_not(start: Callable[..., Outbox], topic: FakeTopic) -> None:
    asked = threading.Event()
    box = start("a", may_publish=asked.set)
    assert asked.wait(30)
    assert (len(box), topic.attempts) == (1, 0)


def test_pauses_grow_are_bounded_jittered_and_heed_advice() -> None:
    pauses = Pauses(first_seconds=1, longest_seconds=4)
    for longest in (1, 2, 4, 4, 4, 4):
        assert longest / 2 <= pauses.next_seconds() <= longest
    assert pauses.next_seconds(advised_seconds=30) == 30
    pauses.reset()
    assert pauses.next_seconds() <= 1
