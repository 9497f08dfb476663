"""The settings of the exporter: the type, the bounds, the meaning and the default of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct

from shared.kinds.table import KIND_NAMES
from shared.model.messages import OBJECT_NAME
from shared.settings import OPTIONAL_URL, KindNames, between, matching, read_all

_CLUSTER = matching(
    r"projects/[a-z0-9.:-]+/locations/[a-z0-9-]+/clusters/[a-z0-9-]+",
    "projects/PROJECT/locations/LOCATION/clusters/NAME",
)
_TOPIC = matching(
    r"projects/[a-z0-9.:-]+/topics/[A-Za-z][A-Za-z0-9._~+%-]{2,254}", "projects/PROJECT/topics/NAME"
)
_NAME = matching(OBJECT_NAME.pattern, "a Kubernetes name")


class ExporterSettings(Struct, frozen=True, kw_only=True):
    """Everything that an operator can set."""

    cluster: Annotated[str, _CLUSTER]
    """The cluster to watch. It is the source of every event."""
    topic: Annotated[str, _TOPIC]
    """The Pub/Sub topic that receives the events."""
    kinds: KindNames = KIND_NAMES
    """The kinds of workload to watch, separated by commas."""
    kueue_admission_check: bool = False
    """Whether to watch Kueue's Workloads, so that the functions answer its admission check within
    seconds. It needs a role of its own: docs/kueue.md."""
    endpoint: Annotated[str, OPTIONAL_URL] = ""
    """URL of the Kubernetes API, for an exporter outside of its cluster: that of `kubectl proxy`,
    for example. Empty: the service account of the exporter's pod."""
    ca_file: str = ""
    """PEM file of the authority of that URL. Empty: the system's authorities."""
    token_file: str = ""
    """File with a bearer token for that URL. Empty: none, as for kubectl proxy."""
    http_port: Annotated[int, between(0, 65535)] = 8080
    """Port for /healthz, /readyz and /metrics. 0: any free port, which is logged."""
    lease_namespace: Annotated[str, _NAME] = ""
    """Namespace of the Lease that elects the exporter which reports. Empty: the namespace of the
    exporter's pod, and tpu-provisioner outside of a cluster."""
    lease_name: Annotated[str, _NAME] = "tpu-provisioner-exporter"
    """Name of that Lease: one for each cluster and deployment."""
    lease_seconds: Annotated[int, between(0, 600)] = 15
    """Seconds without a renewal after which another exporter takes the Lease. 0: no election.
    Kubernetes' own components use 15."""

    @property
    def http_address(self) -> str:
        """Return the address to listen on: the kubelet probes the pod's."""
        return "127.0.0.1" if self.endpoint else "0.0.0.0"  # noqa: S104


def read_exporter_settings(environ: Mapping[str, str]) -> ExporterSettings:
    """Return the settings in an environment. An empty variable counts as absent."""
    variables = {name: text for name, text in environ.items() if text}
    settings: ExporterSettings = read_all(variables, ExporterSettings)[0]
    return settings
