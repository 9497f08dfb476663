"""Manifests that need no pool, or never get one: each ends, and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from rich.console import Console

from local.demo.manifests import BadManifest, load
from local.demo.running import Run, RunOptions
from local.demo.views import PlainView

if TYPE_CHECKING:
    from pathlib import Path

    from local.demo.outcome import Outcome
    from local.stack.stack import Stack

SELECTOR = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
    "cloud.google.com/gke-tpu-topology": "8x8",
}


def jobset(name: str, *, chips: int = 0, annotations: dict[str, str] | None = None, **spec: object) -> dict:
    limits = {"google.com/tpu": chips} if chips else {}
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
    pod = {"containers": [container], "restartPolicy": "Never", "nodeSelector": SELECTOR if chips else {}}
    template = {"metadata": {"annotations": annotations or {}}, "spec": pod}
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
        "opted-out",
        chips=4,
        annotations={"tpu-provisioner.cloud.google.com/disable-autoprovisioning": "true"},
    ),
    jobset("cpu-only"),
    jobset("fails", annotations={"local.tpu-provisioner/exit-code": "1"}),
]


def run(stack: Stack, folder: Path, documents: list[dict]) -> Outcome:
    path = folder / "odd.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    view = PlainView(Console(quiet=True))
    return Run(stack, view, RunOptions(timeout_seconds=60)).perform(load([str(path)]))


@pytest.mark.slow
def test_what_needs_no_pool_or_gets_none_ends_with_its_reason(stack: Stack, tmp_path: Path):
    outcome = run(stack, tmp_path, DOCUMENTS)
    assert outcome.verified, outcome.problems
    assert {each.workload: each.reason for each in outcome.refusals} == {
        "suspended": "workload_suspended",
        "opted-out": "no_demand",
    }
    ends = {each.name: each.terminal for each in outcome.timeline.workloads.values()}
    assert (ends["cpu-only"], ends["fails"]) == ("Completed", "Failed")
    assert [note for note in outcome.notes if "skipped LocalQueue" in note] == list(outcome.notes)
    assert outcome.pools_left == 0


@pytest.mark.slow
def test_a_jobset_that_the_cluster_refuses_is_bad_input(stack: Stack, tmp_path: Path):
    wrong = jobset("Not_A_Name")
    with pytest.raises(BadManifest, match=r"odd\.yaml, document 1: the cluster refused it: .*Not_A_Name"):
        run(stack, tmp_path, [wrong])
