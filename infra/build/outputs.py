#!/usr/bin/env python3
"""Prints a part of `terraform output -json` for the scripts: lines, with columns by tabs.

A deployment that is not there, or only half, has fewer outputs: the answer is then empty.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

_PATH = re.compile(r"projects/([^/]+)/locations/([^/]+)/clusters/([^/]+)")


def list_clusters(outputs: dict[str, Any]) -> list[str]:
    """Return key, project, location, name and gcloud's endpoint flag of each served cluster."""
    rows = []
    for key, cluster in sorted(outputs.get("clusters", {}).items()):
        match = _PATH.fullmatch(cluster["path"])
        if match is None:
            raise ValueError(f"clusters: {key}: is not the full name of a cluster (got {cluster['path']!r})")
        flag = "--internal-ip" if cluster["private"] else "--dns-endpoint"
        rows.append("\t".join((key, *match.groups(), flag)))
    return rows


def select(outputs: dict[str, Any], name: str, key: str) -> list[str]:
    """Return the lines of one answer."""
    if name == "clusters":
        return list_clusters(outputs)
    if name == "helm_values":
        return [json.dumps(outputs["helm_values"][key])]
    if name == "push_subscriptions":
        subscriptions = outputs.get("subscriptions", {})
        return [each for key, each in sorted(subscriptions.items()) if each and key != "dead_letters"]
    value = outputs.get(name, [])
    if isinstance(value, dict):
        return [value[key]] if value.get(key) else []
    return [str(each) for each in value]


def main() -> int:
    """Print the output of a name, and of its part if a key follows."""
    path, name, *keys = sys.argv[1:]
    wrapped = json.loads(Path(path).read_text(encoding="utf-8"))
    outputs = {each: value["value"] for each, value in wrapped.items() if value.get("value") is not None}
    sys.stdout.writelines(f"{line}\n" for line in select(outputs, name, keys[0] if keys else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
