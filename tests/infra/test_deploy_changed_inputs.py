"""A deployment whose inputs change, by the scripts with real gcloud and terraform on the mock.

test_deploy_lifecycle.py has the inputs whose change is refused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.deploy.created_objects import look_at
from tests.infra.build_project import TERRAFORM_SCRIPT, Project, enable_first_apis
from tests.infra.changed_inputs import APPLIED
from tests.infra.mock_google_cloud import PROJECT, describe_programs, serve_mock

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1800)]


def test_every_input_that_can_change_is_changed_and_the_next_build_has_nothing_to_do(tmp_path: Path) -> None:
    """Terraform moves the functions to another region, and their source stays where it is.

    The CPU pool names its zone, so that it stays there when ZONE changes.
    """
    with serve_mock(tmp_path, require_enabled=True) as mock, look_at(mock) as created:
        environ = describe_programs(tmp_path, mock)
        enable_first_apis(environ)
        project = Project.make(tmp_path, environ, ALERT_EMAIL="team@example.com", TERRAFORM_VARIABLES="more.json")
        more = {"elastic_pools": True, "cpu_pool_zones": ["us-east5-b"]}
        (project.source / "more.json").write_text(json.dumps(more))
        project.provision()

        project.environ |= APPLIED
        project.run("provision-01-apis.sh")
        project.run(TERRAFORM_SCRIPT)
        outputs = json.loads((project.build / "outputs.json").read_text())
        job = f"projects/{PROJECT}/locations/us-east1/jobs/tpu-provisioner-sweep"
        assert outputs["scheduler_job"]["value"] == job
        assert "other-artifacts" in project.list_buckets()
        assert project.is_up_to_date()

        said = project.destroy(DELETE_ARTIFACTS="true")
        assert "Kept: " not in said
        left = [each.name for each in created.list_created() if each.address in created.list_present()]
        assert sorted(left) == ["tpu-provisioner-images", f"{PROJECT}-tpu-provisioner-state"]
        assert created.list_grants() == []
