"""Manifests that need no pool, or never get one: each ends and says why and whose refusal it is."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from demo.loop.demo_manifests import BadManifest, load
from demo.loop.run_outcome import Outcome
from demo.loop.running import Run, RunOptions
from demo.loop.views import PlainView
from demo.stack.stack import Stack
from demo.tests.local_commands import TEST_SECONDS_MAX

pytestmark = pytest.mark.timeout(TEST_SECONDS_MAX)
"""The first test of a cluster waits for its stack."""

SELECTOR = {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice", "cloud.google.com/gke-tpu-topology": "8x8"}


def jobset(
    name: str,
    *,
    chips: int = 0,
    annotations: dict[str, str] | None = None,
    pod: dict[str, object] | None = None,
    **spec: object,
) -> dict[str, Any]:
    limits = {"google.com/tpu": chips} if chips else {}
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
    selector = SELECTOR if chips else {}
    body = {"containers": [container], "restartPolicy": "Never", "nodeSelector": selector, **(pod or {})}
    template = {"metadata": {"annotations": annotations or {}}, "spec": body}
    job = {"name": "slice", "template": {"spec": {"backoffLimit": 0, "template": template}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "odd"},
        "spec": {"replicatedJobs": [job], **spec},
    }


DOCUMENTS = [
    {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": "queue"}},
    jobset("suspended", chips=4, suspend=True),
    jobset(
        "opted-out", chips=4, annotations={"tpu-provisioner.cloud.google.com/disable-autoprovisioning": "true"}
    ),
    jobset("cpu-only"),
    jobset("fails", annotations={"local.tpu-provisioner/exit-code": "1"}),
    jobset("no-jobs", chips=4, pod={"restartPolicy": "Always"}),
    jobset("no-pods", chips=4, pod={"priorityClassName": "missing"}),
]
REFUSED = {
    "suspended": ("owner", "workload_suspended", "(jobset is suspended)"),
    "opted-out": ("provisioner", "no_demand", "the exporter published no demand"),
    "no-jobs": (
        "cluster",
        "no_jobs",
        'no Jobs: JobCreationFailed: job "no-jobs-slice-0" creation failed with error: Job.batch "no-jobs-',
    ),
    "no-pods": ("cluster", "no_pods", "is forbidden: no PriorityClass with name missing was found"),
}
"""Workload: whose refusal it is, the reason, and a part of the message."""


def run(stack: Stack, folder: Path, documents: list[dict[str, Any]]) -> Outcome:
    path = folder / "odd.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    view = PlainView(Console(quiet=True))
    return Run(stack, view, RunOptions(timeout_seconds=240)).perform(load([str(path)]))


def check_refusals(outcome: Outcome, expected: dict[str, tuple[str, str, str]]) -> None:
    found = {each.workload: (str(each.by), each.reason) for each in outcome.refusals}
    assert found == {name: (by, reason) for name, (by, reason, _) in expected.items()}
    for each in outcome.refusals:
        assert expected[each.workload][2] in each.message


@pytest.mark.slow
def test_what_needs_no_pool_or_gets_none_ends_with_its_reason(stack: Stack, tmp_path: Path) -> None:
    outcome = run(stack, tmp_path, DOCUMENTS)
    assert outcome.verified, outcome.problems
    check_refusals(outcome, REFUSED)
    ends = {each.name: each.terminal for each in outcome.timeline.workloads.values()}
    assert (ends["cpu-only"], ends["fails"]) == ("Completed", "Failed")
    assert [note for note in outcome.notes if "skipped LocalQueue" in note] == list(outcome.notes)
    assert outcome.pools_left == 0


@pytest.mark.slow
def test_a_jobset_that_the_cluster_refuses_is_bad_input(stack: Stack, tmp_path: Path) -> None:
    wrong = jobset("Not_A_Name")
    with pytest.raises(BadManifest, match=r"odd\.yaml, document 1: the cluster refuses the object: .*Not_A_Name"):
        run(stack, tmp_path, [wrong])
