#!/usr/bin/env python3
"""Renders the objects for training workloads: namespaces, account, settings, priorities, queues.

ResourceFlavors for the usual sizes of every generation (powers of two, and three times those); one
ClusterQueue with the flavor of TPU_TYPE and NUM_OF_CHIPS chips of it, and with those of QUOTAS; one
LocalQueue in each namespace. Written as JSON, which is YAML too. `check` only checks the inputs.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "infra/terraform/modules/environment/catalogue.json"
DEFAULT_TYPE = "v4-16"
QUEUE = "tpu-job-queue"
CONFIG_MAP = "training-environment"
"""In each namespace: what workloads need to know of the environment (examples/training)."""
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

    @property
    def labels(self) -> tuple[str, str]:
        """What its nodes are labelled with; two names may mean the same slice."""
        return self.accelerator, self.topology

    @property
    def is_usual(self) -> bool:
        """Whether its number is a power of two or three times one; there are a thousand others."""
        number = self.name.partition("-")[2]
        return number.isdigit() and int(number) in {times * 2**power for times in (1, 3) for power in range(15)}


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


def find_slice(name: str, variable: str = "TPU_TYPE") -> Slice:
    """Return the slice of a public name that an input has.

    Raises:
        ValueError: there is none; the text names the input and says which slices there are.
    """
    slices = list_slices()
    if name not in slices:
        prefix = name.split("-", maxsplit=1)[0]
        near = [each for each in slices if each.startswith(f"{prefix}-")] or list(slices)
        raise ValueError(f"{variable}: is not a TPU type (got {name!r}); valid: {', '.join(near)}")
    return slices[name]


def read_quotas(inputs: Mapping[str, str]) -> dict[Slice, int]:
    """Return the queue's chips by slice: first that of TPU_TYPE, then those of QUOTAS.

    Raises:
        ValueError: an input is not valid; the text names it, and says what would be.
    """
    chosen = find_slice(inputs.get("TPU_TYPE") or DEFAULT_TYPE)
    pools = max(1, int(inputs.get("NUM_TPU_POOLS") or 0))
    quotas = {chosen: int(inputs.get("NUM_OF_CHIPS") or pools * chosen.chips)}
    for each in re.split(r"[ ,]+", inputs.get("QUOTAS", "").strip(" ,")):
        if not each:
            continue
        name, _, chips = each.partition("=")
        if not re.fullmatch(r"[0-9]{1,7}", chips):
            raise ValueError(f"QUOTAS: must be TPU types with numbers of chips (got {each!r}); valid: v6e-16=64")
        found = find_slice(name, "QUOTAS")
        if any(found.labels == other.labels for other in quotas):
            raise ValueError(
                f"QUOTAS: names a slice twice (got {each!r}); valid: other slices than of TPU_TYPE, once each"
            )
        quotas[found] = int(chips)
    return quotas


def render_queue(quotas: Mapping[Slice, int], namespaces: Sequence[str]) -> list[Json]:
    """Return Kueue's objects: flavors, the cluster queue, and a local queue in each namespace.

    A slice of two public names gets one flavor, named as the slice of the first quota is.
    """
    prefix = next(iter(quotas)).name.partition("-")[0]
    usual = [each for each in list_slices().values() if each.is_usual]
    usual.sort(key=lambda each: not each.name.startswith(f"{prefix}-"))
    named: dict[tuple[str, str], Slice] = {}
    for each in (*quotas, *usual):
        named.setdefault(each.labels, each)
    flavors = [_render_flavor(each) for each in named.values()]
    flavors.append(_object(KUEUE_API, "ResourceFlavor", {"name": ANY_NODE}))
    queue = {
        "namespaceSelector": _select(namespaces),
        "queueingStrategy": "BestEffortFIFO",
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [
            _render_group({each.name: {CHIPS: str(chips)} for each, chips in quotas.items()}),
            _render_group({ANY_NODE: NO_LIMIT}),
        ],
    }
    return [
        *flavors,
        _object(KUEUE_API, "ClusterQueue", {"name": CLUSTER_QUEUE}, spec=queue),
        *(
            _object(
                KUEUE_API, "LocalQueue", {"name": QUEUE, "namespace": each}, spec={"clusterQueue": CLUSTER_QUEUE}
            )
            for each in namespaces
        ),
    ]


def read_environment(outputs: Mapping[str, Any]) -> dict[str, str]:
    """Return what workloads need to know, as variables, from Terraform's outputs."""
    names = ("bucket_url", "image_repository", "tensorboard")
    return {name.upper(): outputs.get(name, {}).get("value") or "" for name in names}


def render_namespaces(
    namespaces: Sequence[str], account: str, google_account: str, environment: Mapping[str, str]
) -> list[Json]:
    """Return the namespaces, each with account and settings of workloads, and the priorities."""
    account_metadata = {
        "name": account,
        "annotations": {"iam.gke.io/gcp-service-account": google_account} if google_account else {},
    }
    return [
        *(_object("v1", "Namespace", {"name": each}) for each in namespaces),
        *(_object("v1", "ServiceAccount", account_metadata | {"namespace": each}) for each in namespaces),
        *(
            _object("v1", "ConfigMap", {"name": CONFIG_MAP, "namespace": each}, data=dict(environment))
            for each in namespaces
        ),
        *(
            _object(
                "scheduling.k8s.io/v1",
                "PriorityClass",
                {"name": name},
                value=value,
                description=f"Training workloads of {name.replace('-', ' ')} priority",
            )
            for name, value in PRIORITIES.items()
        ),
    ]


def _object(api_version: str, kind: str, metadata: Json, **fields: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def _render_flavor(each: Slice) -> Json:
    labels = {
        "cloud.google.com/gke-tpu-accelerator": each.accelerator,
        "cloud.google.com/gke-tpu-topology": each.topology,
    }
    return _object(KUEUE_API, "ResourceFlavor", {"name": each.name}, spec={"nodeLabels": labels})


def _select(namespaces: Sequence[str]) -> Json:
    key = "kubernetes.io/metadata.name"
    if len(namespaces) == 1:
        return {"matchLabels": {key: namespaces[0]}}
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(namespaces)}]}


def _render_group(flavors: Mapping[str, Mapping[str, str]]) -> Json:
    """Every flavor of a group has the same resources."""
    return {
        "coveredResources": list(next(iter(flavors.values()))),
        "flavors": [
            {
                "name": flavor,
                "resources": [{"name": name, "nominalQuota": amount} for name, amount in quota.items()],
            }
            for flavor, quota in flavors.items()
        ],
    }


def main() -> int | str:
    """Print one of the two lists of objects, or check the inputs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("check", "namespace", "queue"))
    parser.add_argument("--outputs", type=Path, help="the output of `terraform output -json`; not for `check`")
    arguments = parser.parse_args()
    try:
        quotas = read_quotas(os.environ)
    except ValueError as error:
        return f"error: {error}"
    if arguments.part == "check":
        return 0
    outputs = json.loads(arguments.outputs.read_text(encoding="utf-8"))
    workload = outputs["workload"]["value"]
    namespaces = [workload["namespace"], *workload.get("more_namespaces", ())]
    if arguments.part == "namespace":
        account, google_account = workload["kubernetes_account"], workload["google_service_account"]
        objects = render_namespaces(namespaces, account, google_account, read_environment(outputs))
    else:
        objects = render_queue(quotas, namespaces)
    json.dump({"apiVersion": "v1", "kind": "List", "items": objects}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
