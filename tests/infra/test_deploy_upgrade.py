"""What an operator of 0.1.0 sees who runs the builds of this version, on the mock of Google Cloud.

Nothing that a user would lose is deleted or replaced.
"""

import re
from pathlib import Path

import pytest

from tests.infra.build_project import Project
from tests.infra.build_scripts import ROOT
from tests.infra.first_release import extract_first_release

pytestmark = [pytest.mark.deploy, pytest.mark.by_hand, pytest.mark.timeout(2400)]

ONE_REGION = {
    "REGION": "us-central1",
    "SERVICES_REGION": "us-central1",
    "ZONE": "us-central1-a",
    "IMAGE_REPOSITORY": "",
}
"""0.1.0 knew one region only, so its deployments are where all services are."""


GONE = "module.provisioner.google_pubsub_subscription.nodepool_events[0]"
"""No program pulls from it any more: docs/notes-0.2.0.md."""
OF_ALL_CLUSTERS = tuple(
    f'module.provisioner.google_project_iam_member.node_pools["training-project/{function}"]'
    for function in ("collect", "provision", "sweep")
)
"""These grants get a condition, and its cluster's key: docs/rights.md."""
MADE_AGAIN = (
    "module.provisioner.google_logging_metric.decisions",
    "module.provisioner.google_storage_bucket_object.source",
)
"""Log-based metrics with other labels, and the archive, are made anew: docs/upgrade.md."""


def read_kept_pool() -> str:
    """Return the variables with which docs/deploy.md keeps the nodes of a CPU pool."""
    found = re.search(r"gets fewer or smaller nodes` \|[^|]*`(\{.*?\})`", (ROOT / "docs/deploy.md").read_text())
    assert found
    return found[1]


def test_a_deployment_of_the_first_release_is_updated_and_loses_nothing(
    environ: dict[str, str], tmp_path: Path
) -> None:
    old = Project(extract_first_release(tmp_path / "old"), tmp_path / "old-build", environ, **ONE_REGION)
    old.provision()
    before = old.list_addresses()

    new = Project.make(tmp_path / "new", environ, **ONE_REGION)
    new.prepare()
    answer = new.run("provision-07-terraform.sh", fails=True, CLUSTER_NAME="second")
    assert "clusters/training, and the inputs name" in answer
    answer = new.run("provision-07-terraform.sh", fails=True)
    assert "pool/cpu-node-pool gets fewer or smaller nodes (machine_type e2-standard-4 to" in answer
    (new.source / "kept.json").write_text(read_kept_pool())
    new.environ["TERRAFORM_VARIABLES"] = "kept.json"
    assert "Only planned: applying this plan" in new.run("provision-07-terraform.sh", PLAN_ONLY="true")
    assert new.read_plan()["module.environment.google_container_node_pool.cpu"] == ["no-op"]
    changes = new.read_plan()
    assert {each for each, actions in changes.items() if "delete" in actions} == {
        GONE,
        *OF_ALL_CLUSTERS,
        *MADE_AGAIN,
    }
    for lasting in ("google_container_cluster.this", "google_storage_bucket.artifacts"):
        assert changes[f"module.environment.{lasting}"] == ["update"]

    new.run("provision-07-terraform.sh")
    assert {*before} - {*new.list_addresses()} == {GONE, *OF_ALL_CLUSTERS}
    assert new.is_up_to_date()

    assert "Kept: gs://training-artifacts" in new.destroy()
    assert "training-artifacts" in new.list_buckets()
