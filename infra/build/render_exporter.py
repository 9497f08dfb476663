#!/usr/bin/env python3
"""Writes the kustomize folder of one served cluster: infra/kubernetes, with what only the build knows.

That is the exporter's image by digest, its topic and cluster, and the e-mail addresses of the functions' accounts.
Written as JSON, which kustomize reads as it reads YAML.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OVERLAY = ROOT / "infra/kubernetes/gke"
IMAGE = "exporter"
"""The image's name in the manifests, which kustomize replaces."""
CONTAINER = "exporter"
NAME = "tpu-provisioner-exporter"
FUNCTIONS = ("provision", "collect", "sweep")


def render(outputs: dict[str, Any], key: str, image: str, folder: Path) -> dict[str, Any]:
    """Return the kustomization for one cluster of Terraform's outputs, to be written into `folder`.

    Raises:
        ValueError: the outputs know no such cluster, or the image has no digest.
    """
    clusters = outputs["clusters"]["value"]
    if key not in clusters:
        raise ValueError(f"--cluster: {key!r} is not served; valid: {', '.join(sorted(clusters))}")
    name, at, digest = image.partition("@")
    if not at:
        raise ValueError(f"--image: {image!r} has no digest; valid: NAME@sha256:…")
    accounts = outputs["accounts"]["value"]
    environment = clusters[key]["exporter_environment"]
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(OVERLAY, folder.resolve())],
        "images": [{"name": IMAGE, "newName": name, "digest": digest}],
        "patches": [_render_settings(environment), *(_render_subject(each, accounts[each]) for each in FUNCTIONS)],
    }


def _render_settings(environment: dict[str, str]) -> dict[str, Any]:
    container = {"name": CONTAINER, "env": [{"name": name, "value": environment[name]} for name in environment]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": "tpu-provisioner"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    return {"patch": json.dumps(deployment)}


def _render_subject(function: str, account: str) -> dict[str, Any]:
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": account}
    return {
        "target": {"kind": "ClusterRoleBinding", "name": f"tpu-provisioner-{function}"},
        "patch": json.dumps([{"op": "replace", "path": "/subjects", "value": [subject]}]),
    }


def main() -> int:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outputs", type=Path, required=True, help="what `terraform output -json` said")
    parser.add_argument("--cluster", required=True, help="its key in the output `clusters`")
    parser.add_argument("--image", required=True, help="the exporter's image with digest")
    parser.add_argument("--folder", type=Path, required=True, help="written anew")
    arguments = parser.parse_args()
    outputs = json.loads(arguments.outputs.read_text(encoding="utf-8"))
    try:
        kustomization = render(outputs, arguments.cluster, arguments.image, arguments.folder)
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    arguments.folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(kustomization, indent=2) + "\n"
    (arguments.folder / "kustomization.yaml").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
