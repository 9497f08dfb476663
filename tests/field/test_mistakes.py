"""A slice that cannot be read is refused for its mistake, in the same words in every kind."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.cli_world import read_json, write
from tests.field.planned import INPUTS, plan_needs

MISTAKES = {
    "no-chips": "resources.google.com/tpu: missing; 2x2 needs 4 chips",
    "unset-variable": "resources.google.com/tpu: quantity '' is not valid",
    "misspelt": (
        "resources.google.com/TPU: no node of a new node pool has this resource: did you mean google.com/tpu?"
    ),
    "old-resource": "did you mean google.com/tpu?",
    "misspelt-gpu": (
        "resources.nvidia.com/gpus: no node of a new node pool has this resource: did you mean nvidia.com/gpu?"
    ),
    "no-such-topology": "cloud.google.com/gke-tpu-topology: not a topology of ct6e-standard-4t (got '2x3')",
    "no-such-type": "cloud.google.com/gke-tpu-accelerator: unknown TPU type (got 'tpu-v6e')",
}
KINDS: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "Pod": ("v1", lambda template: dict(template["spec"])),
    "Deployment": ("apps/v1", lambda template: {"replicas": 1, "template": template}),
    "StatefulSet": ("apps/v1", lambda template: {"replicas": 2, "template": template}),
    "Job": ("batch/v1", lambda template: {"completionMode": "Indexed", "template": template}),
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        lambda template: {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": template}}}]},
    ),
    "LeaderWorkerSet": (
        "leaderworkerset.x-k8s.io/v1",
        lambda template: {"leaderWorkerTemplate": {"size": 1, "workerTemplate": template}},
    ),
}


def test_a_job_without_index_is_refused_for_its_mistake() -> None:
    needs = plan_needs("mistaken-slices.yaml")

    messages = {name: need["message"] for name, need in needs.items()}
    assert {name: text for name, text in messages.items() if MISTAKES[name] not in text} == {}
    assert not any("completionMode" in text for text in messages.values())
    assert {need["decision"] for need in needs.values()} == {"refuse"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_the_same(kind: str, tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all((INPUTS / "mistaken-slices.yaml").read_text()))
    version, make = KINDS[kind]
    found: dict[str, str] = {}
    for job in documents:
        body: dict[str, Any] = {"apiVersion": version, "kind": kind, "metadata": job["metadata"]}
        body["spec"] = make(copy.deepcopy(job["spec"]["template"]))
        path = write(tmp_path / "one.yaml", yaml.safe_dump(body))
        found |= {need["workload"]: need["message"] for need in read_json("plan", path)["needs"]}

    assert {name: text for name, text in MISTAKES.items() if text not in found[name]} == {}
