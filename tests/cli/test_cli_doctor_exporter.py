"""`doctor` says in words what the exporter answers."""

import dataclasses
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from cli.diagnosis import cluster_checks
from cli.diagnosis.cluster_checks import check_exporter
from cli.diagnosis.findings import Finding, Result
from cli.printing import short_cluster
from exporter.health import Health, HealthServer, Role
from standins.kit.local_answers import Answer, LocalAnswers
from tests.builders import CLUSTER
from tests.cli.cli_world import a_deployment, with_settings


def check(url: str) -> Finding:
    (finding,) = check_exporter(a_deployment(exporter_url=url))
    return finding


@pytest.fixture
def health() -> Health:
    health = Health(("jobsets",))
    health.role = Role.LEADER
    return health


@pytest.fixture
def url(health: Health) -> Iterator[str]:
    server = HealthServer("127.0.0.1", 0, health, render_metrics=bytes)
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


def test_an_exporter_that_is_not_ready_is_shown_with_the_causes(url: str, health: Health) -> None:
    health.note_lack("rayclusters", "not installed")

    found = check(url)

    missing = "rayclusters (not installed), jobsets (the first list is not complete yet)"
    assert (found.result, found.text) == (Result.BAD, f"not ready: its role is leader; missing: {missing}")


def test_an_exporter_that_is_ready_is_shown_with_what_it_misses(url: str, health: Health) -> None:
    health.note_listed("jobsets")
    assert check(url).text == "ready: its role is leader"

    health.note_lack("rayclusters", "not installed")
    found = check(url)

    assert (found.result, found.text) == (Result.OK, "ready: its role is leader; missing: rayclusters")


@pytest.mark.parametrize("body", [b"<p>\n hello", b'{"ready": true}', b"[]", b'{"role": "x", "missing": [1]}'])
def test_an_answer_that_is_not_the_exporters_is_shown_as_it_is(body: bytes) -> None:
    with LocalAnswers(lambda _asked: Answer(200, body)) as server:
        found = check(server.url)

    assert found.text == "ready: " + " ".join(body.decode().split())


def test_the_log_is_asked_about_the_exporter_of_each_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment, another = a_deployment(), f"{CLUSTER}-b"
    (served,) = deployment.settings.clusters.values()
    reports: dict[str, float | None] = {CLUSTER: deployment.ports.clock.now() - 60, another: None}
    monkeypatch.setattr(cluster_checks, "find_last_report", lambda _logs, cluster, **_now: reports[cluster])

    both = with_settings(deployment, clusters={CLUSTER: served, another: served})
    found = check_exporter(dataclasses.replace(both, open_logs=Mock()))

    results = {each.check: (each.result, each.text.partition(";")[0]) for each in found}
    assert results == {
        f"{short_cluster(CLUSTER)} exporter": (Result.OK, "published its last event 60s ago"),
        f"{short_cluster(another)} exporter": (Result.WARN, "published no event in the last day"),
    }
