"""What the chart says of the exporter, read as text: no program is needed for it."""

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
_OBJECTS = read_chart(CHART, VALUES)
OF_EXPORTER: dict[str, Json] = {each["kind"]: each for each in _OBJECTS if EXPORTER in each["metadata"]["name"]}
"""The one object of each kind that surrounds the exporter."""
POD: Json = OF_EXPORTER["Deployment"]["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
ENVIRONMENT: dict[str, str] = {each["name"]: each["value"] for each in CONTAINER["env"]}
