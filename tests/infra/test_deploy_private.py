"""A private deployment with real gcloud and terraform on the mock of Google Cloud, made twice."""

import json
from pathlib import Path

import pytest

from tests.infra.build_project import Project
from tests.infra.mock_google_cloud import PROJECT

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1800)]

PRIVATE = {
    "IMAGE_REPOSITORY": "",
    "REGION": "us-central1",
    "SERVICES_REGION": "us-central1",
    "ZONE": "us-central1-a",
    "CONTROL_PLANE_ACCESS": "private",
    "AUTHORIZED_NETWORKS": "10.129.0.0/20",
    "PRIVATE_NODES": "true",
    "FUNCTIONS_EGRESS": "all",
    "KMS_KEY": f"projects/{PROJECT}/locations/us-central1/keyRings/training/cryptoKeys/training",
}


def test_a_private_deployment_is_made_and_a_second_run_changes_nothing(
    environ: dict[str, str], tmp_path: Path
) -> None:
    project = Project.make(tmp_path, environ, **PRIVATE)
    project.provision()
    outputs = json.loads((project.build / "outputs.json").read_text())
    served = outputs["clusters"]["value"]["environment"]

    assert served["path"] == f"projects/{PROJECT}/locations/us-central1/clusters/training"
    assert not served["endpoint"].endswith(".gke.goog")
    assert served["ca_data"]
    assert project.is_up_to_date()
