"""`doctor` says in words what the exporter answers."""

import dataclasses
from collections.abc import Iterator

import pytest

from cli.diagnosis.cluster_checks import check_exporter
from cli.diagnosis.findings import Finding, Result
from exporter.health import Health, HealthServer, Role
from standins.processes.local_answers import Answer, LocalAnswers
from tests.cli.cli_world import a_deployment


def check(url: str) -> Finding:
    deployment = a_deployment()
    own = dataclasses.replace(deployment.own, exporter_url=url)
    (finding,) = check_exporter(dataclasses.replace(deployment, own=own))
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
