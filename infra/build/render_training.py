#!/usr/bin/env python3
"""Renders the objects for training workloads: namespace, account, priorities and queue.

ResourceFlavors for TPU_TYPE and the usual sizes of its generation (powers of two), one ClusterQueue
with the flavor of TPU_TYPE and NUM_OF_CHIPS chips of it, one LocalQueue. Written as JSON, which is
YAML too.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "infra/terraform/modules/environment/catalogue.json"
DEFAULT_TYPE = "v4-16"
QUEUE = "tpu-job-queue"
CLUSTER_QUEUE = "cluster-queue"
KUEUE_API = "kueue.x-k8s.io/v1beta1"
"""Served by every version in third_party/go.sum; from v0.16 on Kueue converts it to v1beta2."""
CHIPS = "google.com/tpu"
PRIORITIES = {"very-low": 100, "low": 250, "medium": 500, "high": 750, "very-high": 1000}
ANY_NODE = "any-node"
NO_LIMIT = {"cpu": "1000000", "memory": "1000Ti", "ephemeral-storage": "1000Ti"}
"""Kueue admits nothing that asks for a resource which its queue does not name: these are not
limited."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Slice:
    """One TPU type: what its nodes are labelled with, and how large it is."""

    name: str
    generation: str
    accelerator: str
    topology: str
    chips: int


@functools.cache
def list_slices() -> dict[str, Slice]:
    """Return the slices that Terraform knows, by public name; read once."""
    found = {}
    for machine in json.loads(CATALOGUE.read_text(encoding="utf-8"))["machines"].values():
        for name, each in machine["slices"].items():
            found[name] = Slice(
                name=name,
                generation=machine["generation"],
                accelerator=machine["accelerator"],
                topology=each["topology"],
                chips=each["nodes"] * machine["chips_per_host"],
            )
    return found


def find_slice(name: str) -> Slice:
    """Return the slice of a public name.

    Raises:
        ValueError: there is none; the text says which there are.
    """
    slices = list_slices()
    if name not in slices:
        prefix = name.split("-", maxsplit=1)[0]
        near = [each for each in slices if each.startswith(f"{prefix}-")] or list(slices)
        raise ValueError(f"TPU_TYPE: is not a TPU type (got {name!r}); valid: {', '.join(near)}")
    return slices[name]


def render_queue(chosen: Slice, chips: int, namespace: str) -> list[Json]:
    """Return Kueue's objects: flavors, the cluster queue with its quota, the local queue."""
    prefix = chosen.name.split("-", maxsplit=1)[0]
    usual = {f"{prefix}-{2**power}" for power in range(2, 15)}
    named = [each for each in list_slices().values() if each == chosen or each.name in usual]
    flavors = [_render_flavor(each) for each in named]
    flavors.append({"apiVersion": KUEUE_API, "kind": "ResourceFlavor", "metadata": {"name": ANY_NODE}})
    queue = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "queueingStrategy": "BestEffortFIFO",
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [
            _render_group(chosen.name, {CHIPS: str(chips)}),
            _render_group(ANY_NODE, NO_LIMIT),
        ],
    }
    return [
        *flavors,
        {"apiVersion": KUEUE_API, "kind": "ClusterQueue", "metadata": {"name": CLUSTER_QUEUE}, "spec": queue},
        {
            "apiVersion": KUEUE_API,
            "kind": "LocalQueue",
            "metadata": {"name": QUEUE, "namespace": namespace},
            "spec": {"clusterQueue": CLUSTER_QUEUE},
        },
    ]


def render_namespace(namespace: str, account: str, google_account: str) -> list[Json]:
    """Return the namespace, the account that workloads run as, and the priority classes."""
    annotations = {"iam.gke.io/gcp-service-account": google_account} if google_account else {}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": namespace, "annotations": annotations},
        },
        *(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
                "description": f"Training workloads of {name.replace('-', ' ')} priority",
            }
            for name, value in PRIORITIES.items()
        ),
    ]


def _render_flavor(each: Slice) -> Json:
    labels = {
        "cloud.google.com/gke-tpu-accelerator": each.accelerator,
        "cloud.google.com/gke-tpu-topology": each.topology,
    }
    return {
        "apiVersion": KUEUE_API,
        "kind": "ResourceFlavor",
        "metadata": {"name": each.name},
        "spec": {"nodeLabels": labels},
    }


def _render_group(flavor: str, quota: dict[str, str]) -> Json:
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
    return {"coveredResources": list(quota), "flavors": [{"name": flavor, "resources": resources}]}


def main() -> int:
    """Print one of the two lists of objects."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("namespace", "queue"))
    parser.add_argument("--outputs", type=Path, required=True, help="the output of `terraform output -json`")
    arguments = parser.parse_args()
    outputs = json.loads(arguments.outputs.read_text(encoding="utf-8"))
    workload = outputs["workload"]["value"]
    try:
        if arguments.part == "namespace":
            names = (workload["namespace"], workload["kubernetes_account"], workload["google_service_account"])
            objects = render_namespace(*names)
        else:
            chosen = find_slice(os.environ.get("TPU_TYPE") or DEFAULT_TYPE)
            pools = max(1, int(os.environ.get("NUM_TPU_POOLS") or 0))
            chips = int(os.environ.get("NUM_OF_CHIPS") or pools * chosen.chips)
            objects = render_queue(chosen, chips, workload["namespace"])
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    json.dump({"apiVersion": "v1", "kind": "List", "items": objects}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
