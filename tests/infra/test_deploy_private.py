"""A private deployment with real gcloud and terraform on the mock of Google Cloud, made twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.infra.build_project import serve_project
from tests.infra.mock_google_cloud import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(900)]

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


def test_a_private_deployment_is_made_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    with serve_project(tmp_path) as project:
        for script in ("check-inputs.sh", "provision-01-apis.sh", "provision-02-state-bucket.sh"):
            project.run(script, fails=False, **PRIVATE)
        for script in ("provision-03-functions.sh", "provision-04-image-repository.sh"):
            project.run(script, fails=False, **PRIVATE)
        project.run("provision-07-terraform.sh", fails=False, **PRIVATE)
        outputs = json.loads((project.build / "outputs.json").read_text())
        served = outputs["clusters"]["value"]["environment"]

        assert served["path"] == f"projects/{PROJECT}/locations/us-central1/clusters/training"
        assert not served["endpoint"].endswith(".gke.goog")
        assert served["ca_data"]
        assert "No changes" in project.run("provision-07-terraform.sh", fails=False, **PRIVATE)
