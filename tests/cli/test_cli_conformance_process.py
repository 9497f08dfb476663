"""The command ``conformance`` as a process: its plan, a kill, Ctrl-C, its report for the fake."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.environment import PREFIX
from standins.fakegke.faults.fault_rules import DupCreateInflight
from standins.fakegke.faults.scenario import Scenario, load_answers
from standins.processes.stand_ins import PATIENCE_SECONDS, ROOT, wait_until
from tests.builders import CLUSTER
from tests.cli.conformance_world import FAKE, Project, serve_gke
from tests.contract.stand_ins import ask

pytestmark = pytest.mark.slow
FOREIGN = "somebody-s"


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A fake in which a creation takes three seconds, and another person has a pool."""
    with serve_gke(tmp_path_factory.mktemp("gke"), "--speed=8") as ports:
        url = ports["rest"]
        body = {"name": FOREIGN, "initialNodeCount": 1, "config": {"machineType": "e2-small"}}
        ask("POST", f"{url}/v1/{CLUSTER}/nodePools", {"nodePool": body})
        yield url


def start(fake: str, report: Path, *arguments: str) -> subprocess.Popen[str]:
    settings = {
        "CLUSTERS": json.dumps({CLUSTER: {"endpoint": "http://127.0.0.1:9"}}),
        "CREDENTIALS": "anonymous",
        "GKE_ENDPOINT": fake,
        "COMPUTE_ENDPOINT": fake,
        "LOGGING_ENDPOINT": "",
        "MONITORING_ENDPOINT": "",
    }
    environ = os.environ | {f"{PREFIX}{name}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "cli", "conformance", f"--report={report}", *arguments]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit code and all that was printed."""
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, out + err


def list_pools(fake: str) -> list[str]:
    return [each["pool"] for each in ask("GET", f"{fake}/admin/pools")["pools"]]


def wait_for_a_pool(fake: str) -> None:
    wait_until(lambda: list_pools(fake) != [FOREIGN], what="a pool")


def test_without_yes_it_prints_the_plan_and_changes_nothing(fake: str, tmp_path: Path) -> None:
    code, output = finish(start(fake, tmp_path / "r.json"))

    assert code == 2
    assert "duplicate-create: Create one pool twice at once." in output
    assert "costs nothing" in output
    assert "--yes: is needed" in output
    assert list_pools(fake) == [FOREIGN]
    assert not (tmp_path / "r.json").exists()


def test_a_killed_run_is_cleaned_up_and_continued_by_the_next(fake: str, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    asked = ("--yes", "--only=missing-pool", "--only=create-existing")
    killed = start(fake, report, *asked)
    wait_for_a_pool(fake)
    killed.kill()
    finish(killed)
    left = list_pools(fake)

    code, output = finish(start(fake, report, *asked))

    assert len(left) == 2
    assert code == 0, output
    assert "of 2, missing-pool" not in output  # its answer is in the report
    assert {each["verdict"] for each in json.loads(report.read_text())["answers"].values()} == {"as assumed"}
    assert "| `create-existing` | 409" in report.with_suffix(".md").read_text()
    assert list_pools(fake) == [FOREIGN]


def test_ctrl_c_deletes_the_pools(fake: str, tmp_path: Path) -> None:
    process = start(fake, tmp_path / "r.json", "--yes", "--only=create-existing")
    wait_for_a_pool(fake)
    process.send_signal(signal.SIGINT)
    code, output = finish(process)

    assert code == 1, output
    assert "ended by Ctrl-C; the pools of the run are deleted" in output
    assert list_pools(fake) == [FOREIGN]


def test_clean_asks_nothing_and_pools_of_another_run_are_named(fake: str, tmp_path: Path) -> None:
    process = start(fake, tmp_path / "a.json", "--yes", "--only=create-existing")
    wait_for_a_pool(fake)
    process.kill()
    finish(process)

    code, output = finish(start(fake, tmp_path / "b.json", "--yes", "--only=missing-cluster"))
    assert (code, "left alone: conformance-" in output) == (0, True)
    assert len(list_pools(fake)) == 2

    code, output = finish(start(fake, tmp_path / "a.json", "--yes", "--clean"))
    assert code == 0, output
    assert "create-existing" not in output
    assert list_pools(fake) == [FOREIGN]


def test_a_report_of_another_cluster_is_refused(fake: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"cluster": "projects/q/locations/l/clusters/d"}')
    code, output = finish(start(fake, tmp_path / "r.json", "--yes"))

    assert (code, "--report: is about another cluster" in output) == (2, True)


def test_the_fake_answers_as_the_report_says(tmp_path: Path) -> None:
    scenario: dict[str, Any] = {
        "faults": [{"switch": "dup_create_inflight", "answer": "exists"}],
        "timings": {"stockout": 77.0},
    }
    report = tmp_path / "r.json"
    report.write_text(json.dumps({"cluster": CLUSTER, "scenario": scenario}))
    with serve_gke(tmp_path, "--manual-clock", f"--answers={report}") as ports:
        project = Project(ports["rest"])
        project.rest()  # no removal of faults takes an answer away
        name = project.lab.new_name()

        assert project.lab.create(name) == "accepted"
        assert project.lab.create(name) == "409 ALREADY_EXISTS, read as AlreadyExists"
        project.lab.clean()
    known = Scenario()
    assert [type(each) for each in load_answers(report, known)] == [DupCreateInflight]
    assert known.timings.stockout == 77.0


def test_an_answer_file_that_is_no_report_is_refused(tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    report.write_text("[]")
    command = [sys.executable, "-m", *FAKE, f"--answers={report}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)

    assert done.returncode == 2
    assert "is not a report" in done.stderr
