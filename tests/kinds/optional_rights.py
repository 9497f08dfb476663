"""The optional roles of infra/kubernetes, for the service accounts of the local stack."""

from pathlib import Path
from typing import Any

from standins.controlplane.product_manifests import read_kustomization

NAMESPACE = "tpu-provisioner"
_KUBERNETES = Path(__file__).resolve().parents[2] / "infra/kubernetes"


def read_optional_rights(folder: str) -> list[dict[str, Any]]:
    """Return a folder's roles and bindings; the stack's account of its name replaces Google's."""
    found = read_kustomization(_KUBERNETES / folder)
    for each in found:
        for subject in each.get("subjects", ()):
            name = subject["name"].partition("@")[0]
            subject.clear()
            subject |= {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    return found
