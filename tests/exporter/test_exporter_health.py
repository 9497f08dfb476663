"""Do the probes say what is true: the loops live, what is missing, and nothing about Pub/Sub?"""

import json
from collections.abc import Iterator

import httpx
import pytest

from exporter.health import HEARTBEAT_SECONDS_MAX, Health, HealthServer, Metrics, Role
from tests.clocks import StepClock


@pytest.fixture
def clock() -> StepClock:
    return StepClock(0.0)


@pytest.fixture
def health(clock: StepClock) -> Health:
    return Health(("pods", "jobsets"), clock.now)


@pytest.fixture
def server(health: Health) -> Iterator[HealthServer]:
    listening = HealthServer("127.0.0.1", 0, health, Metrics().render)
    listening.start()
    yield listening
    listening.stop()


def ask(server: HealthServer, path: str) -> tuple[int, str]:
    answer = httpx.get(f"http://127.0.0.1:{server.port}{path}", timeout=30)
    return answer.status_code, answer.text


def test_a_loop_that_shows_itself_keeps_the_process_alive(
    server: HealthServer, health: Health, clock: StepClock
) -> None:
    health.beat("pods")
    health.beat("jobsets")
    clock.advance(HEARTBEAT_SECONDS_MAX)
    health.beat("jobsets")
    assert ask(server, "/healthz")[0] == 200
    clock.advance(1)
    status, body = ask(server, "/healthz")
    assert status == 503
    assert json.loads(body)["heartbeat_age_seconds"] == {"pods": 181.0, "jobsets": 1.0}


def test_a_leader_is_ready_when_everything_has_been_listed_once(server: HealthServer, health: Health) -> None:
    health.role = Role.LEADER
    health.note_listed("pods")
    health.note_lack("jobsets", "the cluster does not know it")
    status, body = ask(server, "/readyz")
    assert (status, json.loads(body)) == (
        503,
        {"ready": False, "role": "leader", "missing": {"jobsets": "the cluster does not know it"}},
    )
    health.note_listed("jobsets")
    assert ask(server, "/readyz")[0] == 200


def test_a_later_outage_is_told_and_does_not_unready(server: HealthServer, health: Health) -> None:
    health.role = Role.LEADER
    health.note_listed("pods")
    health.note_listed("jobsets")
    health.note_lack("pods", "connection refused")
    status, body = ask(server, "/readyz")
    assert (status, json.loads(body)["missing"]) == (200, {"pods": "connection refused"})
    health.note_lack("pods", "")
    assert json.loads(ask(server, "/readyz")[1])["missing"] == {}


@pytest.mark.parametrize(
    ("role", "status"), [(Role.STARTING, 503), (Role.STANDBY, 200), (Role.LEADER, 503), (Role.ENDING, 503)]
)
def test_readiness_follows_the_role(server: HealthServer, health: Health, role: Role, status: int) -> None:
    health.role = role
    assert ask(server, "/readyz")[0] == status


def test_metrics_are_ours_alone(server: HealthServer) -> None:
    status, body = ask(server, "/metrics")
    assert status == 200
    names = {line.split()[2] for line in body.splitlines() if line.startswith("# HELP")}
    assert names
    assert all(name.startswith("tpu_provisioner_exporter_") for name in names)


def test_another_path_is_told_what_is_valid(server: HealthServer) -> None:
    assert ask(server, "/") == (404, "there is no such page; valid: /healthz, /readyz, /metrics\n")
