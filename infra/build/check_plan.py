#!/usr/bin/env python3
"""Refuses a plan that takes away what carries traffic or data, or weakens what bounds the bill.

Each loss must be named in the argument (_ALLOW), in the words that this program prints. Another
deployment under the same state, and the deletion of a protected cluster, are refused in any case.
Reads `terraform show -json PLAN` from standard input.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Change = Mapping[str, Any]

KEPT = {
    "google_artifact_registry_repository": "repository",
    "google_compute_network": "network",
    "google_compute_router": "router",
    "google_compute_router_nat": "nat",
    "google_compute_subnetwork": "subnet",
    "google_container_cluster": "cluster",
    "google_container_node_pool": "pool",
    "google_monitoring_notification_channel": "channel",
    "google_pubsub_subscription": "subscription",
    "google_pubsub_topic": "topic",
    "google_storage_bucket": "bucket",
    "google_storage_bucket_iam_member": "grant",
    "google_vertex_ai_tensorboard": "tensorboard",
}
"""The word for each type of resource that is not taken away without being asked for."""
_WORDS = ("name", "display_name", "member")
_OF_NODES = ("node_count", "node_locations", "machine_type", "disk_size_gb", "disk_type")


def list_losses(changes: list[Change]) -> dict[str, str]:
    """Return what the plan takes away, as ``nat/training-nat``, and how."""
    losses = {}
    for each in changes:
        before, actions = each["change"]["before"] or {}, each["change"]["actions"]
        if each["type"] in KEPT and "delete" in actions:
            losses[_word_of(each)] = "is replaced" if "create" in actions else "is deleted"
        elif each["type"] == "google_container_node_pool" and (moved := list(_list_moved(each["change"]))):
            losses[_word_of(each)] = f"gets other nodes ({', '.join(moved)}), and its pods may have no place"
        elif each["type"] == "terraform_data" and before:
            losses |= _find_higher_limit(before["output"], each["change"]["after"]["input"])
    return losses


def _word_of(each: Change) -> str:
    before = each["change"]["before"]
    name = next(str(before[word]) for word in _WORDS if before.get(word))
    return f"{KEPT[each['type']]}/{name.rpartition('/ns/')[2].replace(' ', '')}"


def _list_moved(change: Change) -> Iterator[str]:
    if change["actions"] != ["update"]:
        return
    before, after = ((each.get("node_config") or [{}])[0] | each for each in (change["before"], change["after"]))
    for name in _OF_NODES:
        old, new = before.get(name), after.get(name)
        if old and new and old != new and not (isinstance(old, int) and new > old):
            yield f"{name} {old} to {new}"


def _find_higher_limit(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """No limit is written as 0."""
    old, new = (each["limit_chips"] or float("inf") for each in (before, after))
    return (
        {"limit_chips": f"is raised from {before['limit_chips']} to {after['limit_chips']}"} if new > old else {}
    )


def find_refusal(plan: Mapping[str, Any], allowed: str) -> str:
    """Return why the plan is not applied; empty if it takes away nothing that is not allowed."""
    changes = plan.get("resource_changes", [])
    for each in changes:
        change = each["change"]
        if each["type"] == "terraform_data" and change["before"]:
            made, asked = change["before"]["output"]["identity"], change["after"]["input"]["identity"]
            if made != asked:
                return (
                    f"the state is that of the deployment ({made}), and the inputs name ({asked}). For a second "
                    "one set another _NAME; for this one correct the inputs. To move it, destroy it first"
                )
        if each["type"] == "google_container_cluster" and "delete" in change["actions"]:
            return f"the plan takes the cluster {change['before']['name']} away, which only the destroy build does"
    losses = list_losses(changes)
    refused = losses.keys() - set(re.split(r"[ ,]+", allowed))
    lines = "".join(f"  {name} {losses[name]}\n" for name in sorted(refused))
    words = f"Correct the inputs; or, if this is what you want, set _ALLOW='{' '.join(sorted(losses))}'"
    return f"the plan takes away what may be in use:\n{lines}It is not applied. {words}" if refused else ""


if __name__ == "__main__":
    refusal = find_refusal(json.load(sys.stdin), sys.argv[1])
    sys.exit(f"error: {refusal}" if refusal else 0)
