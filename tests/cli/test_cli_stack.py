"""The commands on a whole local stack, by the settings that `make env` prints."""

from collections.abc import Iterator
from typing import Any

import pytest

from demo.parts import operator_environment
from demo.stack import Stack
from shared.kinds.table import KINDS
from tests.cli.cli_world import read_json, run
from tests.loop.cloud import Cloud, wait_for
from tests.loop.workload import Workload

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
LONG = {"run-seconds": 10**7}  # more real hours than any wait lasts
EXAMPLES: dict[str, dict[str, Any]] = {
    "train": {"file": "examples/v6e-sidecar.yaml", "does": LONG},
    "refused": {"file": "examples/unsatisfiable-three-chips.yaml", "does": LONG},
}


@pytest.fixture(scope="module")
def environ(stack: Stack) -> dict[str, str]:
    return operator_environment(stack.layout, stack.settings, stack.addresses)


@pytest.fixture
def cloud(stack: Stack) -> Iterator[Cloud]:
    """GKE keeps operations, as by default: a fault of a test is stronger than ``ANSWERS``."""
    with Cloud(stack) as cloud:
        cloud.add_fault({"switch": "op_gc", "seconds": 86_400})
        yield cloud


def test_a_workload_is_seen_from_plan_to_its_pools_end(environ: dict[str, str], cloud: Cloud) -> None:
    train, refused = (Workload(cloud, "default", f"cli-{file}", EXAMPLES[file]) for file in EXAMPLES)
    train.apply()
    refused.apply()
    train.pool_is("RUNNING")
    (waiting,) = wait_for("a refused slice", lambda: list_rows(environ, "waiting", refused))
    (pool,) = list_rows(environ, "pools", train)
    (planned, *_) = read_json("plan", EXAMPLES["train"]["file"], environ=environ)["needs"]

    assert (pool["machine_type"], pool["chips"]) == (planned["machine_type"], planned["chips"])
    assert (waiting["decision"], waiting["reason"], waiting["stuck"]) == ("refuse", "shape_unsupported", True)
    assert run("status", environ=environ).exit_code == 1

    # The end of the operation is written a moment after the pool runs.
    history = wait_for("its creation in the history", lambda: tell(environ, train, "creation ended"))
    assert f"creating node pool {pool['pool']}" in history
    (told,) = read_json("why", train.name, environ=environ)
    assert {each["source"] for each in told["entries"]} >= {"jobset", "pod", "operation", "log"}
    assert [each["at"] for each in told["entries"]] == sorted(each["at"] for each in told["entries"])
    assert told["unread"] == []

    train.delete()
    refused.delete()
    gone = f"now: workload default/{train.name} does not exist, and has no pools"
    wait_for("its end in the history", lambda: tell(environ, train, "deletion ended", gone))


def list_rows(environ: dict[str, str], part: str, workload: Workload) -> list[dict[str, Any]]:
    """Return what `status` has of a workload."""
    return [row for row in read_json("status", environ=environ)[part] if row["workload"] == workload.name]


def tell(environ: dict[str, str], workload: Workload, *words: str) -> str:
    """Return what `why` prints, once it has all of these words."""
    shown = run("why", workload.name, environ=environ)
    return shown.stdout if shown.exit_code == 0 and all(each in shown.stdout for each in words) else ""


def test_a_healthy_stack_passes_every_check(environ: dict[str, str]) -> None:
    wait_for("a clean bill", lambda: run("doctor", environ=environ).exit_code == 0)

    choices = {"demo exporter", "demo kueue"}
    choices |= {f"backlog {name}" for name in ("provision", "collect", "provision_ends", "collect_ends")}
    choices |= {f"demo {kind.name}" for kind in KINDS if not kind.install}
    results = {each["check"].rpartition("/")[2]: each["result"] for each in read_json("doctor", environ=environ)}
    assert {name for name, result in results.items() if result == "skipped"} <= choices
    assert {results[name] for name in ("demo tick of collect", "demo JobSet", "demo Job")} == {"ok"}
