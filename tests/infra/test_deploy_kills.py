"""A build that is killed after every tenth creation, six times, and the run that mends it.

The gate kills one build: test_deploy_lifecycle.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.deploy.created_objects import look_at
from tests.deploy.killed_builds import clear_up, kill_when
from tests.infra.build_project import Project, enable_first_apis
from tests.infra.mock_google_cloud import describe_programs, serve_mock

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.deploy, pytest.mark.by_hand, pytest.mark.timeout(1800)]

EVERY = 10
KILLS = 6
"""A deployment has about sixty creations."""


def test_a_build_that_is_killed_after_every_tenth_creation_is_mended(tmp_path: Path) -> None:
    with serve_mock(tmp_path, require_enabled=True) as mock, look_at(mock) as created:
        environ = describe_programs(tmp_path, mock)
        enable_first_apis(environ)
        project = Project.make(tmp_path, environ)
        project.prepare()
        kills = 0
        while kills < KILLS:
            enough = len(created.list_created()) + EVERY
            if not kill_when(project, lambda: len(created.list_created()) >= enough, tmp_path / "killed.log"):  # noqa: B023
                break
            kills += 1
            clear_up(project, created)

        assert kills == KILLS
        project.run("provision-07-terraform.sh")
        assert len(project.list_addresses()) > 70
        assert project.is_up_to_date()
        project.destroy(DELETE_ARTIFACTS="true")
