"""What the chart says of the exporter, read as text: no program is needed for it."""

from functools import cache
from pathlib import Path
from typing import Any

from standins.controlplane.chart import read_chart

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "infra/helm"
CLUSTER, TOPIC = "projects/p/locations/l/clusters/c", "projects/p/topics/events"
IMAGE = f"us-east5-docker.pkg.dev/p/r/exporter@sha256:{'a' * 64}"
VALUES: Json = {
    "image": IMAGE,
    "cluster": CLUSTER,
    "topic": TOPIC,
    "accounts": {each: f"n-{each}@p.iam.gserviceaccount.com" for each in ("provision", "collect")},
}
"""All that a cluster's values must have."""
NAMESPACE = "tpu-provisioner"
EXPORTER = "tpu-provisioner-exporter"


@cache
def read_of_exporter(kind: str) -> Json:
    """Return the one object of a kind that surrounds the exporter."""
    (one,) = [each for each in read_chart(CHART, VALUES) if each["kind"] == kind]
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
