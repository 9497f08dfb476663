"""The demo on a real control plane: verified as on the embedded one, with the same outcome for every example."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from local.demo.steps import STEPS
from local.stack.access import open_kubernetes
from local.stack.background import read_state
from local.stack.clusters import ClusterKind
from local.stack.commands import EXPORTER_ACCOUNT, FUNCTIONS_ACCOUNT
from local.stack.layout import CLUSTER_PATH, Layout

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
ON_THE_EMBEDDED_CLUSTER = runpy.run_path(str(ROOT / "tests" / "local" / "test_examples.py"))
"""The outcomes that the examples have there: one table for both."""
EXPECTED, REFUSED = ON_THE_EMBEDDED_CLUSTER["EXPECTED"], ON_THE_EMBEDDED_CLUSTER["REFUSED"]
CALLS_PER_SLICE_MAX = 5
CALLS_IN_A_CROWD_MAX = ON_THE_EMBEDDED_CLUSTER["CALLS_PER_SLICE_MAX"]
SECONDS_MAX = 200
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "jobset")


def run(
    module: str, folder: Path, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(folder)} | (environment or {}),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def run_demo(folder: Path, *arguments: str) -> dict[str, Any]:
    report = folder / "out.json"
    temporary = folder / "tmp"
    temporary.mkdir()
    answer = run("local.demo", temporary, *arguments, "--cluster=real", "--speed=60", f"--report={report}")
    assert answer.returncode == 0, answer.stdout[-6000:] + answer.stderr[-3000:]
    assert list(temporary.iterdir()) == []
    assert processes_naming(str(temporary)) == []
    found: dict[str, Any] = json.loads(report.read_text())
    assert found["verified"] is True
    assert found["pools_left"] == 0
    return found


def processes_naming(text: str) -> list[str]:
    infos = [process.info for process in psutil.process_iter(["cmdline", "cwd"])]
    commands = {" ".join(each["cmdline"] or []): each["cwd"] or "" for each in infos}
    return [command for command, folder in commands.items() if text in command or text in folder]


@pytest.mark.cluster
@pytest.mark.timeout(SECONDS_MAX)
def test_the_default_demo_is_verified_and_cheap(tmp_path: Path):
    report = run_demo(tmp_path)

    assert report["refusals"] == []
    assert [one["slice"] for one in report["slices"]] == ["v6e-two-slices-slice-0", "v6e-two-slices-slice-1"]
    assert len({one["pool"] for one in report["slices"]}) == 2
    for one in report["slices"]:
        assert list(one["seconds"]) == [str(step) for step in STEPS]
        assert one["gke_calls"] <= CALLS_PER_SLICE_MAX, one["gke_calls_by_method"]


@pytest.mark.cluster
@pytest.mark.timeout(SECONDS_MAX)
def test_every_example_has_the_outcome_that_it_has_on_the_embedded_cluster(tmp_path: Path):
    report = run_demo(tmp_path, str(ROOT / "examples"), "--timeout=150")

    assert {name: pools_of(report, name) for name in EXPECTED} == EXPECTED
    assert {one["workload"]: one["reason"] for one in report["refusals"]} == REFUSED
    assert len(report["workloads"]) == len(EXPECTED) + len(REFUSED)
    for one in report["workloads"]:
        assert one["terminal"] == ("" if one["workload"] in REFUSED else "Completed"), one
    assert max(one["gke_calls"] for one in report["slices"]) <= CALLS_IN_A_CROWD_MAX


def pools_of(report: dict[str, Any], workload: str) -> tuple[Any, ...]:
    """The number of pools that a workload got, and what they all were."""
    served = [one for one in report["slices"] if one["workload"].startswith(workload) and not one["shares_pool"]]
    pools = {pool for one in served for pool in one["pools"]}
    keys = ("node_count", "machine_type", "placement", "tier")
    kinds = {tuple(one[key] for key in keys) for one in served}
    assert len(kinds) == 1, (workload, kinds)
    return (len(pools), *kinds.pop())


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    run("local.stack", tmp_path, "down", f"--home={tmp_path / 'home'}")


@pytest.mark.cluster
@pytest.mark.timeout(SECONDS_MAX)
def test_a_stack_on_it_gives_each_part_its_own_account_and_leaves_no_key_behind(home: Path):
    up = run("local.stack", home.parent, "up", "--cluster=real", f"--home={home}")
    assert up.returncode == 0, up.stdout + up.stderr
    layout = Layout(home)
    state = read_state(layout)
    assert state.settings.cluster is ClusterKind.REAL
    with open_kubernetes(state.addresses.kubeconfig) as client:
        assert client.get("/api/v1/secrets").status_code == httpx.codes.OK
    by_name = {each.name: psutil.Process(each.pid).environ() for each in state.processes}
    exporter = by_name["exporter"]["TPU_PROVISIONER_KUBECONFIG"]
    with open_kubernetes(exporter) as client:
        assert client.get("/api/v1/pods").status_code == httpx.codes.OK
        assert client.get("/api/v1/nodes").status_code == httpx.codes.FORBIDDEN
    for name in ("provision", "collect", "sweep"):
        cluster = json.loads(by_name[name]["TPU_PROVISIONER_CLUSTERS"])[CLUSTER_PATH]
        assert cluster["token_file"] == str(layout.account_token(FUNCTIONS_ACCOUNT))
        assert cluster["ca_file"] == str(layout.authority)
    assert exporter == str(layout.account_kubeconfig(EXPORTER_ACCOUNT))

    down = run("local.stack", home.parent, "down", f"--home={home}")

    assert "The stack is down" in down.stdout
    assert processes_naming(str(home)) == []
    assert sorted(path.name for path in layout.control_plane.rglob("*")) == sorted(
        ["logs", *(f"{part}.log" for part in PARTS)]
    )
    assert not layout.accounts.exists()


@pytest.mark.parametrize(
    ("module", "arguments"), [("local.demo", ()), ("local.stack", ("up",)), ("local.stack", ("run",))]
)
def test_without_the_programs_the_command_that_builds_them_is_named(
    tmp_path: Path, module: str, arguments: tuple[str, ...]
):
    home = (f"--home={tmp_path / 'home'}",) if arguments else ()
    started = time.monotonic()
    answer = run(
        module,
        tmp_path,
        *arguments,
        *home,
        "--cluster=real",
        environment={"XDG_CACHE_HOME": str(tmp_path / "none")},
    )

    assert answer.returncode == 2
    assert "make controlplane" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert time.monotonic() - started < 30
    assert not (tmp_path / "home").exists()
