"""How the mock is called, and what its clients are told; tests/infra runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from standins.googlecloud.mock_program import VARIABLE, MockCloud, find_program, name_service_host

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PUBSUB = "http://127.0.0.1:1"


def test_the_command_names_each_server_that_answers_in_its_place(tmp_path: Path) -> None:
    forwards = {"pubsub.googleapis.com": PUBSUB, "a.run.app": "http://127.0.0.1:2"}
    mock = MockCloud(folder=tmp_path, port=15_000, project="a-project", forwards=forwards)

    words = mock.command("/a/program").arguments
    assert words[:3] == ("/a/program", "-listen", "127.0.0.1:15000")
    assert "-require-enabled" not in words
    assert words[-4:] == ("-to", f"pubsub.googleapis.com={PUBSUB}", "-to", "a.run.app=http://127.0.0.1:2")


def test_apis_must_be_enabled_where_that_is_asked_for(tmp_path: Path) -> None:
    mock = MockCloud(folder=tmp_path, port=15_000, project="a-project", require_enabled=True)

    assert "-require-enabled" in mock.command("/a/program").arguments


def test_clients_are_told_the_proxy_and_whom_to_trust(tmp_path: Path) -> None:
    told = MockCloud(folder=tmp_path, port=15_000, project="a-project", name="a-name").describe_clients()

    assert told["HTTPS_PROXY"] == told["https_proxy"] == "http://127.0.0.1:15000"
    assert told["SSL_CERT_FILE"] == told["REQUESTS_CA_BUNDLE"] == str(tmp_path / "a-name.pem")


def test_the_host_of_a_function_is_the_one_that_the_mock_forms() -> None:
    """As recorded from the program."""
    host = name_service_host("tpu-provisioner-sweep", "demo-project", "us-east5")

    assert host == "tpu-provisioner-sweep-3488774580.us-east5.run.app"


def test_the_program_is_found_by_its_variable_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "mock"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    monkeypatch.setenv(VARIABLE, str(program))
    assert find_program() == str(program)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "another"))
    assert find_program() is None
    monkeypatch.delenv(VARIABLE)
    assert find_program() is None
