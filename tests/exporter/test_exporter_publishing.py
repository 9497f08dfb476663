"""Does the outbox lose nothing, hold back when full, and end in time?"""

import itertools
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


class Post:
    """An outbox of pods, and a topic that takes batches, fails as planned, and can be held shut."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.failures: list[errors.ProvisionerError] = []
        self.attempts = 0
        self.open, self.metrics = threading.Event(), Metrics()
        self.open.set()

    def start(self, *names: str, **options: Any) -> None:
        pauses = Pauses(first_seconds=0.001, longest_seconds=0.005)
        usual: dict[str, Any] = {"capacity": BATCH_MAX * 3, "pauses": pauses}
        self.box = Outbox(self._publish, metrics=self.metrics, **usual | options)
        self.put(*names)
        self.thread = threading.Thread(target=self.box.run, daemon=True)
        self.thread.start()

    def put(self, *names: str, beat: Callable[[], None] = lambda: None) -> None:
        for name in names:
            self.box.put(an_event(name), time.monotonic(), beat)

    def _publish(self, messages: Sequence[Message]) -> list[str]:
        names = [message.attributes["ce-subject"].rsplit("/", 1)[-1] for message in messages]
        self.attempts += 1
        self.open.wait(60)
        if self.failures:
            raise self.failures.pop(0)
        if "bad" in names:
            raise errors.InvalidRequest("this one never")
        self.batches.append(names)
        return [str(index) for index in range(len(names))]

    def wait_for(self, *names: str) -> None:
        """Wait until these are stored in this order, and nothing is left."""
        wait_until(lambda: [*itertools.chain(*self.batches)] == [*names] and len(self.box) == 0)

    def end(self) -> None:
        self.open.set()
        self.box.stop()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()


@pytest.fixture
def post() -> Iterator[Post]:
    post = Post()
    yield post
    post.end()


@contextmanager
def adding(post: Post, name: str, beat: Callable[[], None]) -> Iterator[list[str]]:
    """Add an event in a thread of its own; yield how that ended, when it has."""
    ends: list[str] = []

    def add() -> None:
        try:
            post.put(name, beat=beat)
            ends.append("added")
        except Closed:
            ends.append("closed")

    thread = threading.Thread(target=add, daemon=True)
    thread.start()
    yield ends
    thread.join(PATIENCE_SECONDS)


def test_what_gathers_during_a_batch_goes_out_together(post: Post) -> None:
    post.open.clear()
    post.start("first", "second")
    wait_until(lambda: post.attempts == 1)
    many = [f"e{n}" for n in range(BATCH_MAX + 1)]
    post.put(*many)
    post.open.set()
    post.wait_for("first", "second", *many)
    assert [len(batch) for batch in post.batches] == [2, BATCH_MAX, 1]


@pytest.mark.parametrize("error", [errors.Unavailable, errors.Throttled, errors.Denied, errors.NotFound])
def test_a_failed_publish_is_tried_again_until_it_succeeds(
    post: Post, error: type[errors.ProvisionerError], caplog: pytest.LogCaptureFixture
) -> None:
    post.failures = [error("no"), error("no"), error("no")]
    post.start("a")
    post.wait_for("a")
    failures, of = "tpu_provisioner_exporter_publish_failures_total", {"reason": str(error.reason)}
    assert post.metrics.registry.get_sample_value(failures, of) == 3
    assert [vars(each)["attempt"] for each in caplog.records if "tried again" in each.message] == [1, 2, 3]


@pytest.mark.parametrize("names", [["bad"], ["bad", "good", "better"], ["good", "bad", "better"], ["good", "bad"]])
def test_one_message_that_the_service_refuses_alone_is_dropped_and_named(
    post: Post, caplog: pytest.LogCaptureFixture, names: list[str]
) -> None:
    post.start(*names, pauses=Pauses(first_seconds=60))
    post.wait_for(*(name for name in names if name != "bad"))
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert vars(record)["subject"] == "namespaces/default/pods/bad"
    assert vars(record)["problem"] == "this one never"


def test_a_full_buffer_holds_back_whoever_adds_and_beats_meanwhile(post: Post) -> None:
    post.open.clear()
    post.start("a", "b", capacity=2)
    beats = threading.Event()
    with adding(post, "c", beats.set) as ends:
        assert beats.wait(30)
        assert (ends, len(post.box)) == ([], 2)
        post.open.set()
    assert ends == ["added"]
    post.wait_for("a", "b", "c")


def test_closing_frees_whoever_waits_for_room(post: Post) -> None:
    post.open.clear()
    post.start("a", capacity=1)
    with adding(post, "b", lambda: None) as ends:
        post.box.stop()
    assert ends == ["closed"]
    with pytest.raises(Closed):
        post.put("c")


def test_nothing_is_published_while_it_may_not(post: Post) -> None:
    asked = threading.Event()
    post.start("a", may_publish=asked.set)
    assert asked.wait(30)
    assert (len(post.box), post.attempts) == (1, 0)


@pytest.mark.parametrize(("chance", "part"), [(0.0, 1), (1.0, 0.5)])
def test_pauses_double_are_bounded_jittered_and_heed_advice(chance: float, part: float) -> None:
    pauses = Pauses(first_seconds=1, longest_seconds=4)
    vars(pauses.chance)["random"] = lambda: chance
    assert [pauses.next_seconds() / part for _ in range(5)] == [1, 2, 4, 4, 4]
    assert pauses.next_seconds(advised_seconds=30) == 30
    pauses.reset()
    assert pauses.next_seconds() == part
