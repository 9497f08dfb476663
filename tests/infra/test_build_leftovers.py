"""What the destroy build deletes after a build that failed, and what it says about the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.infra import build_cloud
from tests.infra.build_scripts import DESTROY, OLD_COMMAND_LINE, PROVISION, Bench

if TYPE_CHECKING:
    from pathlib import Path


def run(bench: Bench, script: str, **substitutions: str) -> str:
    done = bench.run(script, bench.environ(DESTROY, OLD_COMMAND_LINE | substitutions))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_destroy_deletes_a_cluster_whose_creation_failed(tmp_path: Path) -> None:
    bench = Bench.make(tmp_path)
    bench.run_all(PROVISION, OLD_COMMAND_LINE)
    build_cloud.change(bench.world, tainted=[build_cloud.CLUSTER])
    run(bench, "terraform-init.sh")
    build_cloud.change(bench.world, calls=[])
    said = run(bench, "destroy-05-terraform.sh")

    assert f"The creation of {build_cloud.CLUSTER} has failed" in said
    calls = build_cloud.read(bench.world)["calls"]
    verbs = [call[2] for call in calls if call[0] == "terraform"]
    assert verbs == ["state", "state", "untaint", "plan", "show", "apply", "state", "destroy"]


@pytest.mark.parametrize("delete_state", ["false", "true"])
def test_a_later_run_says_how_to_delete_what_an_earlier_one_kept(tmp_path: Path, delete_state: str) -> None:
    bench = Bench.make(tmp_path)
    given = OLD_COMMAND_LINE | {"_IMAGE_REPOSITORY": "training"}
    bench.run_all(PROVISION, given)
    first = "".join(bench.run_all(DESTROY, given | {"_DELETE_STATE": delete_state}))
    later = "".join(bench.run_all(DESTROY, given | {"_DELETE_ARTIFACTS": "true"}))

    commands = (
        "gcloud storage rm --recursive gs://training-artifacts\n",
        "gcloud artifacts repositories delete training --location=us-east5 --project=a-project\n",
    )
    for command in commands:
        assert f"To delete it later: {command}" in first
        assert f"is not in the state. If an earlier run kept it: {command}" in later


def test_destroy_deletes_a_full_bucket_also_without_a_cluster(tmp_path: Path) -> None:
    bench = Bench.make(tmp_path)
    bench.run_all(PROVISION, OLD_COMMAND_LINE)
    run(bench, "terraform-init.sh")
    left = build_cloud.read(bench.world)["terraform"]
    left["resources"].remove(build_cloud.CLUSTER)
    build_cloud.change(bench.world, terraform=left)

    run(bench, "destroy-05-terraform.sh", _DELETE_ARTIFACTS="true")
    assert build_cloud.read(bench.world)["unprotected"] == [build_cloud.ARTIFACTS]
