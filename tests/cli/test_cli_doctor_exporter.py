"""`doctor` says in words what the exporter answers."""

from __future__ import annotations

import dataclasses
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from cli.cluster_checks import check_exporter
from cli.findings import Finding, Result
from exporter.health import Health, HealthServer, Role
from tests.cli.cli_world import a_deployment

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(port: int) -> Finding:
    deployment = a_deployment()
    own = dataclasses.replace(deployment.own, exporter_url=f"http://127.0.0.1:{port}")
    (finding,) = check_exporter(dataclasses.replace(deployment, own=own))
    return finding


@pytest.fixture
def health() -> Health:
    health = Health(("jobsets",))
    health.role = Role.LEADER
    return health


@pytest.fixture
def port(health: Health) -> Iterator[int]:
    server = HealthServer("127.0.0.1", 0, health, render_metrics=bytes)
    server.start()
    yield server.port
    server.stop()


def test_an_exporter_that_is_not_ready_is_shown_with_the_causes(port: int, health: Health) -> None:
    health.note_lack("rayclusters", "not installed")

    found = check(port)

    missing = "rayclusters (not installed), jobsets (the first list is not complete yet)"
    assert (found.result, found.text) == (Result.BAD, f"not ready: its role is leader; missing: {missing}")


def test_an_exporter_that_is_ready_is_shown_with_what_it_misses(port: int, health: Health) -> None:
    health.note_listed("jobsets")
    assert check(port).text == "ready: its role is leader"

    health.note_lack("rayclusters", "not installed")
    found = check(port)

    assert (found.result, found.text) == (Result.OK, "ready: its role is leader; missing: rayclusters")


@pytest.mark.parametrize("body", [b"<p>\n hello", b'{"ready": true}', b"[]", b'{"role": "x", "missing": [1]}'])
def test_an_answer_that_is_not_the_exporters_is_shown_as_it_is(body: bytes) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.handle_request, daemon=True).start()
        found = check(server.server_port)

    assert found.text == "ready: " + " ".join(body.decode().split())
