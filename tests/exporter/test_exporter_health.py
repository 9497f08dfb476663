"""Do the probes say what is true: the loops live, what is missing, and nothing about Pub/Sub?"""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from exporter.health import HEARTBEAT_SECONDS_MAX, Health, HealthServer, Metrics, Role
from tests.clocks import StepClock


class Probed(Health):
    """The state of two loops, and what the pages say of it."""

    def __init__(self) -> None:
        self.clock = StepClock(0.0)
        super().__init__(("pods", "jobsets"), self.clock.now)
        self.server = HealthServer("127.0.0.1", 0, self, Metrics())

    def ask(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.server.port}{path}", timeout=30)

    def ready(self) -> tuple[int, Any]:
        answer = self.ask("/readyz")
        return answer.status_code, answer.json()["missing"]


@pytest.fixture
def health() -> Iterator[Probed]:
    probed = Probed()
    probed.server.start()
    yield probed
    probed.server.stop()


def test_a_loop_that_shows_itself_keeps_the_process_alive(health: Probed) -> None:
    health.beat("pods")
    health.beat("jobsets")
    health.clock.pause(HEARTBEAT_SECONDS_MAX)
    health.beat("jobsets")
    assert health.ask("/healthz").status_code == 200
    health.clock.pause(1.26)
    answer = health.ask("/healthz")
    assert answer.status_code == 503
    assert answer.json()["heartbeat_age_seconds"] == {"pods": 181.3, "jobsets": 1.3}


def test_a_leader_is_ready_when_everything_has_been_listed_once_and_tells_a_later_outage(health: Probed) -> None:
    health.role = Role.LEADER
    health.note_listed("pods")
    health.note_lack("jobsets", "the cluster does not know it")
    assert health.ready() == (503, {"jobsets": "the cluster does not know it"})
    health.note_listed("jobsets")
    assert health.ready() == (200, {"jobsets": "the cluster does not know it"})
    health.note_lack("jobsets", "")
    health.note_lack("pods", "connection refused")
    assert health.ready() == (200, {"pods": "connection refused"})
    health.note_lack("pods", "")
    assert health.ready() == (200, {})


@pytest.mark.parametrize(
    ("role", "status"), [(Role.STARTING, 503), (Role.STANDBY, 200), (Role.LEADER, 503), (Role.ENDING, 503)]
)
def test_readiness_follows_the_role(health: Probed, role: Role, status: int) -> None:
    health.role = role
    answer = health.ask("/readyz")
    assert (answer.status_code, answer.json()["role"]) == (status, role)
    assert bool(answer.json()["missing"]) == (role is Role.LEADER), "it has listed nothing"


def test_metrics_are_ours_alone(health: Probed) -> None:
    shown = health.ask("/metrics").text.splitlines()
    names = {line.split()[2] for line in shown if line.startswith("# HELP")}
    assert names
    assert all(name.startswith("tpu_provisioner_exporter_") for name in names)


def test_a_path_that_is_no_page_is_not_found(health: Probed) -> None:
    assert [health.ask(path).status_code for path in ("/", "/metrics/x", "/healthz/")] == [404] * 3
