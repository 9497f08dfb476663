"""Every kind's example at once, with the controllers that make their pods; what is said before."""

import json
import re
from pathlib import Path

import pytest

from demo.kinds.cases import CONTROLLERS, find_problems, leave_out, list_cases
from demo.loop.demo_manifests import BadManifest, read_documents
from demo.stack.clusters import ClusterKind
from demo.stack.layout import PROJECT_ROOT
from demo.tests.local_commands import TEST_SECONDS_MAX, run
from shared.core.kinds.jobset import NODE_SELECTOR_STRATEGY
from shared.core.kinds.table import KINDS
from tests.clusters import SPEEDS

EXAMPLES = [str(PROJECT_ROOT / "examples" / name) for name in ("v6e-node-selector.yaml", "kinds")]
ALL = sorted(set(CONTROLLERS.values()))
RUN_SECONDS_MAX = 900
START_SECONDS_MAX = 600
"""Of control plane and stack, before the run, and their end after it."""
OUTCOMES = {
    "v6e-node-selector.yaml": (1, 2, "ct6e-standard-4t"),
    "deployment-v5e-serving.yaml": (1, 3, "ct5lp-hightpu-4t"),
    "job-l4-gpu.yaml": (1, 6, "g2-standard-8"),
    "job-v6e-multihost.yaml": (1, 4, "ct6e-standard-4t"),
    "leaderworkerset-v6e-serving.yaml": (2, 8, "ct6e-standard-4t"),
    "pod-v6e-lab.yaml": (1, 1, "ct6e-standard-4t"),
    "raycluster-gpu-elastic.yaml": (1, 2, "a2-highgpu-1g"),
    "raycluster-v5e-singlehost.yaml": (2, 2, "ct5lp-hightpu-8t"),
    "raycluster-v6e-multihost.yaml": (2, 8, "ct6e-standard-4t"),
    "rayjob-v6e-multihost.yaml": (1, 4, "ct6e-standard-4t"),
    "statefulset-v6e-slice.yaml": (1, 2, "ct6e-standard-4t"),
}
"""By manifest: pools, nodes of all of them, and machine type, as `examples/README.md` says."""


@pytest.mark.cluster
@pytest.mark.controller(*ALL)
@pytest.mark.slow
@pytest.mark.timeout(RUN_SECONDS_MAX + START_SECONDS_MAX + 60)
def test_each_example_gets_its_pools_and_gives_them_back(tmp_path: Path) -> None:
    options = ("--speed=60", f"--timeout={RUN_SECONDS_MAX}", f"--report={tmp_path / 'out.json'}")
    answer = run("demo.kinds", tmp_path, *options, seconds=RUN_SECONDS_MAX + START_SECONDS_MAX)

    assert answer.returncode == 0, answer.stdout[-6000:] + answer.stderr[-3000:]
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["problems"] == report["left_out"] == []
    assert {
        each["manifest"]: (each["pools"], each["nodes"], *each["machine_types"]) for each in report["cases"]
    } == OUTCOMES
    assert "verified: all 11 examples got their pools and ran, and every pool is deleted" in answer.stdout


@pytest.mark.slow
@pytest.mark.timeout(TEST_SECONDS_MAX)
def test_the_embedded_cluster_runs_what_needs_no_further_controller_and_names_the_rest(tmp_path: Path) -> None:
    options = (
        "--cluster=embedded",
        f"--speed={SPEEDS[ClusterKind.EMBEDDED]:g}",
        "--timeout=350",
        f"--report={tmp_path / 'out.json'}",
    )
    answer = run("demo.kinds", tmp_path, *options)

    assert answer.returncode == 0, answer.stdout[-6000:] + answer.stderr[-3000:]
    report = json.loads((tmp_path / "out.json").read_text())
    found = {name: case for case in report["cases"] for name in case["workloads"]}
    assert {name: (case["pools"], case["nodes"]) for name, case in found.items()}.items() >= {
        "JobSet/v6e-pinned": (1, 2),
        "Job/v6e-job": (1, 4),
    }.items()
    assert any("LeaderWorkerSet v6e-serving" in sentence for sentence in report["left_out"])


def test_every_example_is_a_case_in_a_namespace_of_its_own() -> None:
    cases = list_cases(read_documents(EXAMPLES))

    assert len({case.namespace for case in cases}) == len(cases)
    assert {document.namespace for case in cases for document in case.documents} == {
        case.namespace for case in cases
    }
    assert {kind.name for kind in KINDS} - {each.kind for case in cases for each in case.workloads} == set()


def test_no_example_can_take_the_pool_of_another_one() -> None:
    """Each selects a node label of its own, or is pinned by JobSet.

    See docs/kinds.md, pools of one's own.
    """
    texts = [Path(case.path).read_text() for case in list_cases(read_documents(EXAMPLES))]
    owned = [re.findall(r"^ *example\.com/workload: ([a-z0-9-]+)", text, re.MULTILINE) for text in texts]
    selectors = [text.count("nodeSelector:") for text in texts]
    pinned = [NODE_SELECTOR_STRATEGY in text for text in texts]

    assert [len(own) == count or pin for own, count, pin in zip(owned, selectors, pinned, strict=True)] == [
        True
    ] * 11
    values = [set(own) for own in owned if own]
    assert len(set().union(*values)) == sum(map(len, values)) == len(texts) - pinned.count(True)


def test_a_kind_whose_controller_is_not_built_is_left_out_by_name() -> None:
    cases = list_cases(read_documents(EXAMPLES))
    left, answer = leave_out(cases, ["lws-0.7"])

    assert [case.who for case in cases if case not in left] == ["LeaderWorkerSet v6e-serving"]
    assert "\n".join(answer) == (
        "left out: LeaderWorkerSet v6e-serving (leaderworkerset-v6e-serving.yaml): lws-0.7 is not built; "
        "build it once, which takes minutes: python -m standins.controlplane build --with lws-0.7"
    )


def test_manifests_without_any_workload_are_refused_with_what_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")

    with pytest.raises(BadManifest, match="contains no workload; valid: JobSet"):
        list_cases(read_documents([str(path)]))


def test_what_is_missing_is_said_with_the_last_refusal() -> None:
    case = list_cases(read_documents(EXAMPLES[:1]))[0]

    assert find_problems(case) == ["JobSet v6e-pinned: no node pool was requested"]
    case.asked_at = case.runs_at = 1.0
    case.pools["train-1"], case.refusals = "ct6e-standard-4t", ["limit_chips: too many"]
    assert find_problems(case) == ["JobSet v6e-pinned: pools are left: train-1 (limit_chips: too many)"]
    case.given_back_at = 2.0
    assert find_problems(case) == []
