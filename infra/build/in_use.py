#!/usr/bin/env python3
"""Prints what of a cluster is in use, a line each: pools of this deployment, and pods of people.

The arguments are files: GKE's node pools as `gcloud … --format=json` lists them, and in a cluster
that is to be destroyed all pods as `kubectl get pods --output=json` does. With --pools it prints
the names of the deployment's pools instead.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Json = dict[str, Any]

MANAGER, MANAGED_BY = "google.com/nodepool-manager", "tpu-provisioner"
DEPLOYMENT = "tpu-provisioner-deployment"
NOT_OF_PEOPLE = re.compile(
    r"kube-(system|public|node-lease)|gke-managed-[-a-z0-9]+|gke-gmp-system|gmp-(public|system)|"
    r"tpu-provisioner|jobset-system|kueue-system"
)
"""Namespaces of Kubernetes and GKE, by their whole names, and of what the build installs.

People may have any other, also `gke-prod`. GKE keeps the prefix `gke-managed-` for itself.
"""


def list_own(pools: list[Json], deployment: str) -> list[str]:
    """Return the names of the pools that this deployment made.

    The label says whose a pool is. One of the Go TPU Provisioner has no such label, and is kept.
    """
    own = []
    for each in pools:
        config = each.get("config", {})
        if config.get("labels", {}).get(MANAGER) == MANAGED_BY:
            own += [each["name"]] if config.get("resourceLabels", {}).get(DEPLOYMENT) == deployment else []
    return own


def list_pods(pods: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pods of people that run on a node, or are to."""
    for each in pods["items"]:
        metadata, namespace = each["metadata"], each["metadata"]["namespace"]
        of_daemon = any(owner["kind"] == "DaemonSet" for owner in metadata.get("ownerReferences", ()))
        over = each.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if each["spec"].get("nodeName") and not (of_daemon or over or NOT_OF_PEOPLE.fullmatch(namespace)):
            yield f"{namespace}/{metadata['name']}"


def main() -> int:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deployment", required=True, help="PROJECT_NAME, as pools are labelled")
    parser.add_argument("--pools", action="store_true", help="print only the deployment's pools")
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    lists = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.files]
    own = list_own(lists[0], arguments.deployment)
    lines = own if arguments.pools else [f"node pool {name}" for name in own]
    if len(lists) > 1:
        lines += [f"pod {name}" for name in list_pods(lists[1])]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
