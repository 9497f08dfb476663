"""Two home projects with one `_NAME` whose deployments serve clusters of one project, on the mock.

Terraform's provider takes over a log sink of the same name without a word.
"""

from pathlib import Path

import pytest

from tests.deploy.created_objects import CreatedObjects, look_at
from tests.infra.build_project import Project
from tests.infra.mock_google_cloud import PROJECT, describe_programs, serve_mock

pytestmark = [pytest.mark.deploy, pytest.mark.by_hand, pytest.mark.timeout(1800)]

MISTAKES = [
    (
        "two home projects with one `_NAME` serve clusters of one project, and one is destroyed",
        "it deletes its own sink, whose name has its project",
        "everything of the other one",
        "`No changes.` in the other one",
    )
]
HOMES = ("blue-project", "green-project")
NODES = f"gke-nodes@{PROJECT}.iam.gserviceaccount.com"
_GKE = f"https://container.googleapis.com/v1/projects/{PROJECT}/locations/us-east5/clusters"
_ACCOUNTS = f"https://iam.googleapis.com/v1/projects/{PROJECT}/serviceAccounts"
_SINKS = f"https://logging.googleapis.com/v2/projects/{PROJECT}/sinks"


def make_clusters(created: CreatedObjects) -> None:
    """Create a cluster for each home project, and the account of all nodes."""
    for home in HOMES:
        cluster = {
            "name": home,
            "initialNodeCount": 1,
            "workloadIdentityConfig": {"workloadPool": f"{PROJECT}.svc.id.goog"},
            "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"allowExternalTraffic": True}},
        }
        created.client.post(_GKE, json={"cluster": cluster}).raise_for_status()
    body = {"accountId": "gke-nodes", "serviceAccount": {}}
    created.client.post(_ACCOUNTS, json=body).raise_for_status()


def find_destinations(created: CreatedObjects) -> dict[str, str]:
    """Return where the sinks of the project of the clusters send to, by their home project."""
    found = {home: created.client.get(f"{_SINKS}/tpu-provisioner-{home}-node-pool-operations") for home in HOMES}
    return {home: each.json()["destination"] for home, each in found.items() if each.is_success}


def test_the_end_of_one_deployment_keeps_the_sink_of_the_other(tmp_path: Path) -> None:
    with serve_mock(tmp_path, other_projects=HOMES) as mock, look_at(mock) as created:
        make_clusters(created)
        environ = describe_programs(tmp_path, mock)
        inputs = {
            "CREATE_ENVIRONMENT": "false",
            "CLUSTER_PROJECT": PROJECT,
            "NODE_SERVICE_ACCOUNTS": NODES,
            **dict.fromkeys(
                ("NETWORK_NAME", "SUBNET_NAME", "ARTIFACT_REPOSITORY_BUCKET_NAME", "IMAGE_REPOSITORY"), ""
            ),
        }
        blue, green = (
            Project.make(tmp_path / home, environ, **inputs, PROJECT_ID=home, CLUSTER_NAME=home) for home in HOMES
        )
        for each in (blue, green):
            each.provision()
        topic = "pubsub.googleapis.com/projects/{}/topics/tpu-provisioner-nodepool-events"
        assert find_destinations(created) == {home: topic.format(home) for home in HOMES}
        assert blue.is_up_to_date()

        blue.destroy()
        assert find_destinations(created) == {HOMES[1]: topic.format(HOMES[1])}
        assert green.is_up_to_date()
