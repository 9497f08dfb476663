#!/usr/bin/env python3
"""Writes the kustomize folder of one served cluster: infra/kubernetes with the build's values.

That is the exporter's image by digest, its topic and cluster, and the e-mail addresses of the
functions' accounts. Written as JSON, which kustomize reads as it reads YAML.
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
NAMESPACE = "tpu-provisioner"
"""Of all manifests: they name it in objects and subjects."""
FUNCTIONS = ("provision", "collect")
BINDING = "tpu-provisioner-functions"


def render(outputs: dict[str, Any], key: str, image: str, folder: Path) -> dict[str, Any]:
    """Return the kustomization for one cluster of Terraform's outputs, to be written into `folder`.

    Raises:
        ValueError: the outputs know no such cluster, Terraform was given another namespace than the
            manifests have, or the image has no digest.
    """
    _check_namespace(outputs["exporter_principals"]["value"])
    clusters = outputs["clusters"]["value"]
    if key not in clusters:
        raise ValueError(f"--cluster: is not served (got {key!r}); valid: {', '.join(sorted(clusters))}")
    name, at, digest = image.partition("@")
    if not at:
        raise ValueError(f"--image: has no digest (got {image!r}); valid: NAME@sha256:…")
    accounts = outputs["accounts"]["value"]
    environment = clusters[key]["exporter_environment"]
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(OVERLAY, folder.resolve())],
        "images": [{"name": IMAGE, "newName": name, "digest": digest}],
        "patches": [_render_settings(environment), _render_subjects([accounts[each] for each in FUNCTIONS])],
    }


def _check_namespace(principals: dict[str, str]) -> None:
    """Refuse another namespace: the functions would read their stop where they have no right."""
    for principal in principals.values():
        name = principal.rpartition("/subject/ns/")[2].partition("/")[0]
        if name != NAMESPACE:
            raise ValueError(
                f"exporter_namespace: is not that of the manifests (got {name!r}); valid: {NAMESPACE}. "
                "With another one collect may not read the emergency stop, so no node pool is deleted, and the "
                "exporter may not publish. Manifests of your own need the name everywhere"
            )


def _render_settings(environment: dict[str, str]) -> dict[str, Any]:
    container = {"name": CONTAINER, "env": [{"name": name, "value": environment[name]} for name in environment]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    return {"patch": json.dumps(deployment)}


def _render_subjects(accounts: list[str]) -> dict[str, Any]:
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": each} for each in accounts]
    return {
        "target": {"kind": "ClusterRoleBinding", "name": BINDING},
        "patch": json.dumps([{"op": "replace", "path": "/subjects", "value": subjects}]),
    }


def main() -> int | str:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outputs", type=Path, required=True, help="the output of `terraform output -json`")
    parser.add_argument("--cluster", required=True, help="its key in the output `clusters`")
    parser.add_argument("--image", required=True, help="the exporter's image with digest")
    parser.add_argument(
        "--folder", type=Path, required=True, help="the folder to write; its old content is removed"
    )
    arguments = parser.parse_args()
    outputs = json.loads(arguments.outputs.read_text(encoding="utf-8"))
    try:
        kustomization = render(outputs, arguments.cluster, arguments.image, arguments.folder)
    except ValueError as error:
        return f"error: {error}"
    arguments.folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(kustomization, indent=2) + "\n"
    (arguments.folder / "kustomization.yaml").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
