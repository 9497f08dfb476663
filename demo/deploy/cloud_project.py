"""A project of the mock, before and after an apply: what must be there, and what was deployed."""

import ssl
from typing import Any, Self

import httpx

from demo.deploy.deployments import Deployment
from standins.googlecloud.mock_program import MockCloud

NODE_ACCOUNT = "gke-nodes"
_GKE = "https://container.googleapis.com/v1"
_SINK = "tpu-provisioner-node-pool-operations"
"""The only sink of a deployment with the default name; the mock cannot list sinks."""


class CloudProject:
    """The one project of a running mock, asked through its proxy; used as a context manager."""

    def __init__(self, mock: MockCloud, region: str, cluster: str) -> None:
        self._mock, self._region, self._cluster = mock, region, cluster
        trust = ssl.create_default_context(cafile=str(mock.authority))
        self._client = httpx.Client(proxy=mock.url, verify=trust, timeout=30, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def create_cluster(self) -> None:
        """Create what a deployment finds: a cluster, and the account of its nodes."""
        project = self._mock.project
        cluster = {
            "name": self._cluster,
            "initialNodeCount": 1,
            "workloadIdentityConfig": {"workloadPool": f"{project}.svc.id.goog"},
            "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"allowExternalTraffic": True}},
        }
        self._post(f"{_GKE}/projects/{project}/locations/{self._region}/clusters", {"cluster": cluster})
        accounts = f"https://iam.googleapis.com/v1/projects/{project}/serviceAccounts"
        self._post(accounts, {"accountId": NODE_ACCOUNT, "serviceAccount": {}})

    def find_number(self, account: str) -> str:
        """Return the unique number of a service account.

        Raises httpx.HTTPStatusError: there is no such account.
        """
        path = f"projects/{self._mock.project}/serviceAccounts/{account}"
        return str(self._get(f"https://iam.googleapis.com/v1/{path}")["uniqueId"])

    def read_deployment(self) -> Deployment:
        """Return what is deployed now."""
        project = self._mock.project
        deployed = self._mock.ask("/deployed").json()
        sink = self._client.get(f"https://logging.googleapis.com/v2/projects/{project}/sinks/{_SINK}")
        subscriptions = self._get(f"https://pubsub.googleapis.com/v1/projects/{project}/subscriptions")
        number = self._get(f"https://cloudresourcemanager.googleapis.com/v1/projects/{project}")["projectNumber"]
        return Deployment(
            functions=tuple(deployed["functions"]),
            jobs=tuple(deployed["jobs"]),
            subscriptions=tuple(subscriptions.get("subscriptions", [])),
            sinks=(sink.json(),) if sink.is_success else (),
            policies=self._mock.ask("/policies").json(),
            number=str(number),
        )

    def _get(self, url: str) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get(url).raise_for_status().json()
        return found

    def _post(self, url: str, body: dict[str, Any]) -> None:
        self._client.post(url, json=body).raise_for_status()


def root_inputs(project: str, region: str, zone: str, cluster: str, archive: str) -> dict[str, Any]:
    """Return the variables of the root infra/terraform/provisioner for one cluster."""
    return {
        "project_id": project,
        "region": region,
        "clusters": {"demo": {"name": cluster, "location": region, "zone": zone}},
        "functions_archive": archive,
        "node_service_accounts": [f"{NODE_ACCOUNT}@{project}.iam.gserviceaccount.com"],
    }
