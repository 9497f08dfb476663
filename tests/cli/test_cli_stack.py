"""All five commands on a whole local stack, by the settings that `make env` prints."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from demo.parts import operator_environment
from demo.stack import Stack
from shared.kinds.table import KINDS
from standins.kit.kubernetes import open_client
from standins.kit.processes import PATIENCE_SECONDS
from tests.cli.cli_world import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
NAME, REFUSED = "cli-train", "cli-refused"
LONG = str(10**7)  # more real hours than any wait lasts


@pytest.fixture(scope="module")
def environ(stack: Stack) -> dict[str, str]:
    return operator_environment(stack.layout, stack.settings, stack.addresses)


@pytest.fixture(scope="module")
def kubernetes(stack: Stack) -> Iterator[httpx.Client]:
    with open_client(stack.addresses.kubeconfig) as client:
        yield client


@pytest.fixture(scope="module")
def jobsets(kubernetes: httpx.Client) -> Iterator[None]:
    """One JobSet that runs for long, and one that nobody can serve."""
    for name, example in ((NAME, "v6e-sidecar.yaml"), (REFUSED, "unsatisfiable-three-chips.yaml")):
        body = next(
            each for each in yaml.safe_load_all((EXAMPLES / example).read_text()) if each["kind"] == "JobSet"
        )
        body["metadata"] = {"name": name, "namespace": "default"}
        for job in body["spec"]["replicatedJobs"]:
            pods = job["template"]["spec"]["template"]
            pods.setdefault("metadata", {})["annotations"] = {"local.tpu-provisioner/run-seconds": LONG}
        kubernetes.post(JOBSETS, json=body).raise_for_status()
    yield
    for name in (NAME, REFUSED):
        kubernetes.delete(f"{JOBSETS}/{name}")


def ask(environ: dict[str, str], *arguments: str) -> Any:
    return json.loads(run(*arguments, "-o", "json", environ=environ).stdout)


def until(what: str, look: Callable[[], Any], state: Callable[[], Any] = lambda: "") -> Any:
    """Return what a look finds once it finds something; a failure shows the state of things."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, f"no {what} within {PATIENCE_SECONDS:g} s: {state()}"
        time.sleep(0.2)
    return found


def rows(environ: dict[str, str], kind: str, workload: str, **wanted: str) -> list[dict[str, Any]]:
    found = ask(environ, "status")[kind]
    return [row for row in found if row["workload"] == workload and wanted.items() <= row.items()]


@pytest.fixture(scope="module")
def operations_kept(stack: Stack) -> None:
    """GKE keeps operations, as by default: a fault of a test is stronger than ``ANSWERS``."""
    kept = {"switch": "op_gc", "seconds": 86_400}
    httpx.post(f"{stack.addresses.google_rest}/admin/faults", json=kept).raise_for_status()


@pytest.mark.usefixtures("operations_kept", "jobsets")
def test_a_workload_is_seen_from_plan_to_its_pools_end(environ: dict[str, str], kubernetes: httpx.Client) -> None:
    (pool,) = until("running pool", lambda: rows(environ, "pools", NAME, state="RUNNING"))
    (waiting,) = until("refused slice", lambda: rows(environ, "waiting", REFUSED))
    (planned, *_) = ask(environ, "plan", str(EXAMPLES / "v6e-sidecar.yaml"))["needs"]

    assert (pool["machine_type"], pool["chips"]) == (planned["machine_type"], planned["chips"])
    assert (waiting["decision"], waiting["reason"], waiting["stuck"]) == ("refuse", "shape_unsupported", True)
    assert run("status", environ=environ).exit_code == 1

    # The end of the operation is written a moment after the pool runs.
    told = until(
        "pool's creation in the history",
        lambda: (
            "creation ended" in (found := run("why", NAME, environ=environ)).stdout
            and f"creating node pool {pool['pool']}" in found.stdout
            and found
        ),
    )
    assert told.exit_code == 0
    (history,) = ask(environ, "why", NAME)
    assert {each["source"] for each in history["entries"]} >= {"jobset", "pod", "operation", "log"}
    assert [each["at"] for each in history["entries"]] == sorted(each["at"] for each in history["entries"])
    assert history["unread"] == []

    kubernetes.delete(f"{JOBSETS}/{NAME}").raise_for_status()
    until("end of the pool", lambda: not rows(environ, "pools", NAME))
    ended = until(
        "end in the history",
        lambda: "deletion ended" in (found := run("why", NAME, environ=environ)).stdout and found,
    )
    assert f"now: workload default/{NAME} does not exist, and has no pools" in ended.stdout


def test_a_healthy_stack_passes_every_check(environ: dict[str, str]) -> None:
    def look() -> list[dict[str, str]] | None:
        findings = ask(environ, "doctor")
        return findings if all(each["result"] != "bad" for each in findings) else None

    findings = until("clean bill", look)

    choices = {"demo exporter", "demo kueue"}
    choices |= {f"backlog {name}" for name in ("provision", "collect", "provision_ends", "collect_ends")}
    choices |= {f"demo {kind.name}" for kind in KINDS if not kind.install}
    results = {each["check"].rpartition("/")[2]: each["result"] for each in findings}
    assert {name for name, result in results.items() if result == "skipped"} <= choices
    assert {results[name] for name in ("demo tick of collect", "demo JobSet", "demo Job")} == {"ok"}
