"""Fixtures of the exporter's tests: a scripted Kubernetes API on a socket, a follower's thread."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from exporter.health import Health, Metrics
from exporter.publishing import Pauses
from exporter.watch import Follower
from shared.edges.connection import Connection
from shared.edges.kubernetes import KubernetesApi
from shared.model.messages import Event, EventType
from standins.kit.processes import wait_until
from tests.exporter.scripted_kubernetes import Request, ScriptedKubernetes
from tests.exporter.tls_server import TlsServer


@pytest.fixture
def kubernetes() -> Iterator[ScriptedKubernetes]:
    with ScriptedKubernetes() as script:
        yield script


@pytest.fixture
def api(kubernetes: ScriptedKubernetes) -> KubernetesApi:
    return KubernetesApi(Connection(url=kubernetes.url), timeout_seconds=10)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    with TlsServer(tmp_path_factory.mktemp("tls")) as server:
        yield server


class Following:
    """A follower at work, and what it has reported so far."""

    def __init__(
        self, api: KubernetesApi, kubernetes: ScriptedKubernetes, kind: Any, silence_seconds: float
    ) -> None:
        self.kubernetes, self.kind, self.plural = kubernetes, kind, kind.path.rpartition("/")[2]
        self.reported: list[Event] = []
        self.metrics, self.health = Metrics(), Health((kind.name,))
        self.follower = Follower(
            api,
            kind,
            report=lambda event, *_: self.reported.append(event),
            metrics=self.metrics,
            health=self.health,
            silence_seconds=silence_seconds,
            pauses=Pauses(first_seconds=0.01, longest_seconds=0.05),
            absent_seconds=0.05,
        )
        self.thread = threading.Thread(target=self.follower.run, daemon=True)
        self.thread.start()

    def wait_for(self, *facts: tuple[str, str]) -> None:
        """Wait until exactly these were reported: what, and the UID of the object that was seen."""
        wait_until(lambda: len(self.reported) >= len(facts))
        demands = [event.type == EventType.DEMAND for event in self.reported]
        seen = [
            ("demand" if demand else event.cause.split()[0], event.cause if demand else event.subject.uid)
            for event, demand in zip(self.reported, demands, strict=True)
        ]
        assert seen == list(facts)

    def metric(self, name: str, **labels: str) -> float:
        labels |= {"resource": self.kind.name}
        return self.metrics.registry.get_sample_value(f"tpu_provisioner_exporter_{name}", labels) or 0.0

    def restarts(self, reason: str) -> float:
        return self.metric("watch_restarts_total", reason=reason)

    @property
    def listings(self) -> list[Request]:
        """The requests for lists, so far."""
        return self.kubernetes.asked(self.plural, watch=False)

    def watched_from(self, count: int) -> list[str]:
        """Wait for so many watches and return the version that each one began from."""
        watches = self.kubernetes.wait_for_requests(self.plural, count, watch=True)
        return [each.query["resourceVersion"] for each in watches]

    def stop(self) -> None:
        self.follower.stop()
        self.thread.join(30)
        assert not self.thread.is_alive(), "the follower did not end"


@pytest.fixture
def follow(api: KubernetesApi, kubernetes: ScriptedKubernetes) -> Iterator[Callable[..., Following]]:
    """Return what follows a kind, once the API has these answers to its lists and watches."""
    begun: list[Following] = []

    def start(make: Any, *, silence_seconds: float = 30, lists: Any = (), watches: Any = ()) -> Following:
        kind = make()
        plural = kind.path.rpartition("/")[2]
        kubernetes.lists[plural].extend(lists)
        kubernetes.watches[plural].extend(watches)
        begun.append(Following(api, kubernetes, kind, silence_seconds))
        return begun[-1]

    yield start
    for following in begun:
        following.stop()
