"""What the manifests say of the exporter, read as text: no program is needed for it."""

from pathlib import Path
from typing import Any

from standins.controlplane.product_manifests import read_kustomization, read_objects

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "infra/kubernetes"
NAMESPACE = "tpu-provisioner"
EXPORTER = "tpu-provisioner-exporter"


def read_of_exporter(kind: str) -> Json:
    """Return the one object of a kind that surrounds the exporter."""
    found = read_kustomization(MANIFESTS / "exporter") + read_objects(MANIFESTS / "monitoring/pod-monitoring.yaml")
    (one,) = [each for each in found if each["kind"] == kind]
    return one


def read_pod() -> Json:
    """Return the exporter's pod: its labels and its spec."""
    template: Json = read_of_exporter("Deployment")["spec"]["template"]
    return template


def read_container() -> Json:
    """Return the pod's only container."""
    (container,) = read_pod()["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def read_environment() -> dict[str, str]:
    """Return the variables that the container gets."""
    return {each["name"]: each["value"] for each in read_container()["env"]}


def read_mebibytes(quantity: str) -> int:
    """Return a memory quantity, of which ours are whole mebibytes."""
    return int(quantity.removesuffix("Mi"))
