"""What one build leaves to the next, by its scripts with real gcloud and terraform on the mock.

test_build_between.py has the rest, and the rows of the page of mistakes.
"""

import json
from pathlib import Path

import pytest

from tests.deploy.created_objects import CreatedObjects
from tests.infra.build_project import TERRAFORM_SCRIPT, Project
from tests.infra.mock_google_cloud import PROJECT

pytestmark = [pytest.mark.deploy, pytest.mark.by_hand, pytest.mark.timeout(3000)]

OLDER = {
    "enable_private_nodes": False,
    "enable_ip_endpoints": True,
    "elastic_pools": True,
    "maintenance_window": None,
}
"""The defaults of 0.2.0."""
LOCK = f"gs://{PROJECT}-tpu-provisioner-state/tpu-provisioner/default.tflock"


def test_a_second_build_takes_nothing_away_unasked(
    environ: dict[str, str], created: CreatedObjects, tmp_path: Path
) -> None:
    project = Project.make(tmp_path, environ)
    (project.source / "older.json").write_text(json.dumps(OLDER))
    project.prepare()
    project.run(TERRAFORM_SCRIPT, TERRAFORM_VARIABLES="older.json")

    answer = project.run(TERRAFORM_SCRIPT)
    assert 'The last build had: TERRAFORM_VARIABLES: {"enable_private_nodes": false' in answer
    for kept in ("enable_private_nodes = false", "enable_ip_endpoints = true", "elastic_pools = true"):
        assert f"Kept as it was made: {kept}" in answer
    assert "0 to destroy" in answer

    answer = project.run(TERRAFORM_SCRIPT, fails=True, NAMESPACE="research")
    assert "The last build had: NAMESPACE=tpu-training" in answer
    assert "namespace/tpu-training loses its grants" in answer
    both = {"NAMESPACE": "research", "MORE_NAMESPACES": "tpu-training"}
    project.run(TERRAFORM_SCRIPT, fails=False, **both)
    policy = project.gcloud("storage", "buckets", "get-iam-policy", "gs://training-artifacts", "--format=json")
    for namespace in ("research", "tpu-training"):
        assert f"/subject/ns/{namespace}/sa/cloud-tpu-sa" in policy
    assert project.is_up_to_date(**both)

    # Not by gcloud, whose uploads of files an older program of the mock cannot read.
    upload = f"https://storage.googleapis.com/upload/storage/v1/b/{PROJECT}-tpu-provisioner-state/o"
    query = {"uploadType": "media", "name": "tpu-provisioner/default.tflock"}
    lock = {"ID": "7", "Operation": "OperationTypeApply", "Who": "root@killed"}
    created.client.post(upload, params=query, json=lock).raise_for_status()
    answer = project.run(TERRAFORM_SCRIPT, fails=True, LOCK_TIMEOUT="1s", **both)
    assert "Error acquiring the state lock" in answer
    assert "root@killed" in answer
    command = f"gcloud storage rm {LOCK}"
    assert command in answer
    project.gcloud(*command.split()[1:])
    assert project.is_up_to_date(**both)

    project.destroy(DELETE_ARTIFACTS="true", **both)
    assert created.list_grants() == []
