#!/usr/bin/env python3
"""Stops before a plan of Terraform deletes or replaces what a user would lose.

These are clusters, buckets, networks, node pools, TensorBoards and repositories of images: with
them go running jobs, checkpoints or results. A pool that gets fewer or smaller nodes, or leaves a
zone, counts too, because its pods may not run any more, and so does a namespace that loses all of
its grants, because its jobs lose the bucket. Each must be named in ALLOW_DELETE, in the words that
this program prints. A cluster that its state protects from deletion is refused also then, because
Terraform would delete its pools and fail at the cluster. Reads `terraform show -json PLAN` from
standard input, and the inputs from the environment.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":  # as a script, only this folder is on the import path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from infra.build.region_quotas import count_cpus

if TYPE_CHECKING:
    from collections.abc import Mapping

KEPT = {
    "google_container_cluster": "cluster",
    "google_container_node_pool": "pool",
    "google_storage_bucket": "bucket",
    "google_compute_network": "network",
    "google_compute_subnetwork": "subnet",
    "google_vertex_ai_tensorboard": "tensorboard",
    "google_artifact_registry_repository": "repository",
    "google_compute_router": "router",
    "google_compute_router_nat": "nat",
    "google_pubsub_topic": "topic",
    "google_pubsub_subscription": "subscription",
}
"""The word for each type of resource that is not deleted without being asked for."""
_OF_NODES = ("node_count", "machine_type", "disk_size_gb")
_KEEP = "to keep them, give the pool's present values in TERRAFORM_VARIABLES"
_NAMESPACE = re.compile(r"/subject/ns/([^/]+)/sa/|\.svc\.id\.goog\[([^/]+)/")
"""How a member names the namespace of a Kubernetes account."""
_HOLDS_NOTHING = (
    "module.provisioner.google_artifact_registry_repository.functions",
    "module.provisioner.google_pubsub_topic.nodepool_events",
    "module.provisioner.google_pubsub_subscription.ends",
    "module.provisioner.google_pubsub_subscription.dead_letter_archive",
)
"""Beginnings of addresses: each build fills the repository again, ticks find what ends would have
told, and the subscription `dead_letters` has what the archive copies."""


def list_losses(plan: Mapping[str, Any]) -> dict[str, str]:
    """Return what the plan deletes or replaces of `KEPT`, as ``cluster/training``, and how."""
    found = {}
    for each in _list_lost(plan):
        how = "is replaced" if "create" in each["change"]["actions"] else "is deleted"
        failed = each.get("action_reason") == "replace_because_tainted"
        found[_name(each)] = f"{how}, because its creation failed" if failed else how
    for each in plan.get("resource_changes", ()):
        shrunk = _list_shrunk(each["change"]) if _is_changed_pool(each) else ""
        if shrunk:
            found[_name(each)] = f"gets fewer or smaller nodes ({shrunk}); {_KEEP}"
    for namespace in sorted(_list_namespaces(plan, "before") - _list_namespaces(plan, "after")):
        found[f"namespace/{namespace}"] = (
            f"loses its grants, and its jobs that run lose the bucket; MORE_NAMESPACES={namespace} keeps them"
        )
    return found


def _is_changed_pool(each: Mapping[str, Any]) -> bool:
    return bool(each["type"] == "google_container_node_pool" and each["change"]["actions"] == ["update"])


def _list_shrunk(change: Mapping[str, Any]) -> str:
    """Return what of a pool's nodes an update makes less, with both values; else empty.

    Pods that need what there was do not run afterwards.
    """
    before, after = ((each.get("node_config") or [{}])[0] | each for each in (change["before"], change["after"]))
    pairs = {name: (before[name], after[name]) for name in _OF_NODES if before.get(name) and after.get(name)}
    less = [f"{name} {old} to {new}" for name, (old, new) in pairs.items() if _measure(new) < _measure(old)]
    zones, new_zones = (each.get("node_locations") or () for each in (before, after))
    left = sorted({*zones} - {*new_zones}) if new_zones else []
    return ", ".join(less + [f"none in {zone}" for zone in left])


def _measure(value: int | str) -> int:
    """Return a number; that of a machine type is its vCPUs."""
    return value if isinstance(value, int) else count_cpus(value)


def list_protected(plan: Mapping[str, Any]) -> list[str]:
    """Return what Terraform would fail to delete, as ``cluster/training``."""
    return [_name(each) for each in _list_lost(plan) if each["change"]["before"].get("deletion_protection")]


def _list_lost(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        each
        for each in plan.get("resource_changes", ())
        if "delete" in each["change"]["actions"]
        and each["type"] in KEPT
        and not each["address"].startswith(_HOLDS_NOTHING)
    ]


def _list_namespaces(plan: Mapping[str, Any], when: str) -> set[str]:
    """Return the namespaces that the environment grants something."""
    members = [
        (each["change"].get(when) or {}).get("member") or ""
        for each in plan.get("resource_changes", ())
        if each["type"].endswith("_iam_member") and each["address"].startswith("module.environment.")
    ]
    return {found[1] or found[2] for each in members if (found := _NAMESPACE.search(each))}


def _name(each: Mapping[str, Any]) -> str:
    before = each["change"]["before"]
    return f"{KEPT[each['type']]}/{before.get('name') or before.get('display_name')}"


def refuse_losses(plan: Mapping[str, Any], allowed: str) -> str:
    """Return the refusal of a plan; empty if it loses nothing that is not in `allowed`."""
    losses, protected = list_losses(plan), list_protected(plan)
    names = set(re.split(r"[ ,]+", allowed)) - {"", *protected}
    refused = {name: how for name, how in losses.items() if name not in names}
    if not refused:
        return ""
    lines = "".join(f"  {name} {how}\n" for name, how in sorted(refused.items()))
    wanted = (
        f"run the destroy build, which alone deletes {' '.join(protected)}, with the inputs that made it, and "
        "then this build"
        if protected
        else f"set ALLOW_DELETE='{' '.join(sorted(losses))}'"
    )
    return (
        f"the plan deletes or replaces resources that may be in use:\n{lines}"
        f"This plan is not applied. Correct the inputs. If this is what you want, {wanted}"
    )


def main() -> int | str:
    """Check the plan on standard input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    refusal = refuse_losses(json.load(sys.stdin), os.environ.get("ALLOW_DELETE", ""))
    return f"error: {refusal}" if refusal else 0


if __name__ == "__main__":
    sys.exit(main())
