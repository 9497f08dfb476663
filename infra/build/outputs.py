#!/usr/bin/env python3
"""Reads Terraform's outputs for the build scripts: a value or a table, columns by tabs.

A deployment that is not there, or only half, has fewer outputs: the answer is then empty, never an
error.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

_PATH = re.compile(r"projects/([^/]+)/locations/([^/]+)/clusters/([^/]+)")
ENVIRONMENT = "environment"
"""The key of the cluster that the root `complete` makes."""
_OF_ENVIRONMENTS = ("cluster_id", "bucket_url", "node_service_account", "tpu_pools")


def read_outputs(path: Path) -> dict[str, Any]:
    """Return the outputs by name, without Terraform's wrapping; nulls are left out."""
    wrapped = json.loads(path.read_text(encoding="utf-8"))
    return {name: each["value"] for name, each in wrapped.items() if each.get("value") is not None}


def find_kind(outputs: dict[str, Any]) -> str:
    """Return the root that made the outputs, ``complete`` or ``provisioner``; else empty."""
    clusters = outputs.get("clusters")
    if ENVIRONMENT in (clusters or {}) or any(name in outputs for name in _OF_ENVIRONMENTS):
        return "complete"
    return "provisioner" if clusters else ""


def list_clusters(outputs: dict[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """Return key, project, location, name and gcloud's endpoint flag of each served cluster."""
    found = []
    for key, cluster in sorted(outputs.get("clusters", {}).items()):
        match = _PATH.fullmatch(cluster["path"])
        if match is None:
            raise ValueError(
                f"output clusters: {key}: is not the full name of a cluster (got {cluster['path']!r})"
            )
        flag = "--internal-ip" if cluster["private"] else "--dns-endpoint"
        found.append((key, match[1], match[2], match[3], flag))
    return found


def render(name: str, outputs: dict[str, Any]) -> list[str]:
    """Return the lines of one answer."""
    if name == "clusters":
        return ["\t".join(row) for row in list_clusters(outputs)]
    if name == "topic":
        return [outputs["topics"]["workload_events"]] if outputs.get("topics") else []
    if name == "subscriptions":  # of the functions
        found = outputs.get("subscriptions", {})
        return [found[each] for each in sorted(found) if found[each] and each != "dead_letters"]
    return list(outputs.get("scheduler_jobs", ()))


def render_values(outputs: dict[str, Any], key: str) -> str:
    """Return the chart's values for one cluster, which Helm reads as JSON."""
    return json.dumps(outputs["helm_values"][key], indent=1)


def main() -> int | str:
    """Print one answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, required=True, help="the output of `terraform output -json`")
    parser.add_argument("--cluster", default="", help="the key of a served cluster, for helm-values")
    parser.add_argument("name", choices=("clusters", "topic", "subscriptions", "scheduler-jobs", "helm-values"))
    arguments = parser.parse_args()
    try:
        outputs = read_outputs(arguments.file)
    except FileNotFoundError:
        return f"error: {arguments.file} does not exist; run terraform-init.sh first"
    if arguments.name == "helm-values":
        sys.stdout.write(render_values(outputs, arguments.cluster))
        return 0
    sys.stdout.writelines(f"{line}\n" for line in render(arguments.name, outputs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
