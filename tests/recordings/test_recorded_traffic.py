"""Recorded traffic is read in place, and compared field by field. No recording is needed here."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recordings import recorded_traffic
from tests.recordings.answer_comparison import compare, gather
from tests.recordings.recorded_traffic import (
    FOLDER,
    NUMBER,
    PROJECT,
    VARIABLE,
    find_recordings,
    read_cassette,
    read_log,
    read_recordings,
)

LOG = """GET https://container.googleapis.com/v1beta1/projects/${projectId}/locations/l/operations/${operationID}?alt=json
User-Agent: x

404 Not Found
Server: ESF

{
  "error": {"code": 404}
}

---

POST https://compute.googleapis.com/compute/v1/projects/${projectNumber}/zones/z/instanceGroupManagers
Content-Type: application/json

{
  "name": "${thingId}"
}

200 OK
Server: ESF

---

GRPC /google.x.Service/Get

{}

OK
"""
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")


def test_a_log_is_read_exchange_by_exchange_without_grpc() -> None:
    first, second = read_log("f", LOG)

    assert (first.method, first.host, first.version) == ("GET", "container.googleapis.com", "v1beta1")
    assert (first.status, first.answer, first.body) == (404, {"error": {"code": 404}}, {})
    assert first.path.startswith(f"projects/{PROJECT}/locations/l/operations/operation-")
    assert (first.kind, first.query, first.mocked) == ("operations", {"alt": "json"}, False)
    assert (second.method, second.version, second.status, second.answer) == ("POST", "v1", 200, {})
    assert (second.kind, second.body) == ("instanceGroupManagers", {"name": "thingid"})
    assert second.name == f"f#2: POST projects/{NUMBER}/zones/z/instanceGroupManagers"


def test_a_cassette_is_read_without_what_google_refused() -> None:
    text = json.dumps(
        {
            "interactions": [
                {
                    "id": number,
                    "request": {"url": f"https://x.googleapis.com/v1/jobs/{number}", "method": "GET", "body": ""},
                    "response": {"code": code, "body": '{"a": 1}' if code == 200 else "fake error message"},
                }
                for number, code in enumerate((404, 200))
            ]
        }
    )
    (found,) = read_cassette("f", text)

    assert (found.name, found.kind, found.answer, found.body) == ("f#1: GET jobs/1", "jobs", {"a": 1}, {})


def test_a_file_that_was_written_with_the_mock_says_so() -> None:
    text = LOG.replace("/zones/z/", "/zones/z/instanceGroupManagers/gke-containercluster-abcdef-")

    assert {each.mocked for each in read_log("f", text)} == {True}


@pytest.fixture
def forgotten() -> Iterator[None]:
    read_recordings.cache_clear()
    yield
    read_recordings.cache_clear()


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("git_directory", ["", ".git"])
def test_the_files_of_a_clone_are_found(
    git_directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / FOLDER / recorded_traffic.FOLDERS[0] / "story/_http.log"
    log.parent.mkdir(parents=True)
    log.write_text(LOG)
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=x"]):
        subprocess.run(["git", *IDENTITY, *command], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setenv(VARIABLE, str(tmp_path / git_directory))

    assert find_recordings()
    assert [each.file for each in read_recordings()] == [f"{recorded_traffic.FOLDERS[0]}/story"] * 2


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("value", ["", "nowhere"])
def test_nothing_is_found_without_a_clone(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, value)

    assert (find_recordings(), read_recordings()) == (False, ())


def test_answers_are_compared_by_field_without_what_no_two_runs_share() -> None:
    recorded = {"a": [{"b": 1, "c": "x"}], "time": "2024-04-01T12:34:56.123456Z", "d": {"e": 1}, "only": 1}
    ours = {"a": [{"b": 2, "c": "x"}], "time": "2026-01-01T00:00:00Z", "d": {"e": 2}, "new": [1]}

    found = compare(recorded, ours, {"d": "for a reason"})

    assert found == ["a[].b: recorded 1, ours 2", "new: not recorded, ours [1]", "only: recorded 1, not in ours"]
    assert compare([1], [1, 2], {}) == [": recorded [1], ours [1, 2]"]
    assert gather([("one", "x"), ("two", "x"), ("three", "x")]) == {"x": ["one", "two"]}
