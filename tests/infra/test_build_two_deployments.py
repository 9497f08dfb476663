"""Two deployments: a cluster is served by one of them, and the end of one keeps the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.build.render_variables import list_given
from tests.infra import build_cloud
from tests.infra.build_scripts import BESIDE_A_CLUSTER, DESTROY, PROVISION, Bench, list_scripts

if TYPE_CHECKING:
    from pathlib import Path

SECOND = BESIDE_A_CLUSTER | {"_NAME": "second"}
FIRST_TOPIC = "projects/a-project/topics/tpu-provisioner-workload-events"
CHANGES = ("terraform apply", "kubectl apply", "kubectl delete")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A cluster that the first deployment serves."""
    made = Bench.make(tmp_path)
    build_cloud.change(made.world, exporters={"there-already": FIRST_TOPIC})
    return made


def list_changes(bench: Bench) -> list[str]:
    calls = [" ".join([call[0], call[1 if call[0] == "kubectl" else 2]]) for call in read_calls(bench)]
    return [each for each in calls if each in CHANGES]


def read_calls(bench: Bench) -> list[list[str]]:
    calls: list[list[str]] = build_cloud.read(bench.world)["calls"]
    return [each for each in calls if len(each) > 2]


@pytest.mark.parametrize("plan_only", ["false", "true"])
def test_a_cluster_of_another_deployment_is_refused_before_anything_is_made(bench: Bench, plan_only: str) -> None:
    environ = bench.environ(PROVISION, SECOND | {"_PLAN_ONLY": plan_only})
    scripts = [script for script, _ in list_scripts(PROVISION)]
    for script in scripts[: scripts.index("provision-07-terraform.sh")]:
        assert bench.run(script, environ).returncode == 0
    done = bench.run("provision-07-terraform.sh", environ)

    assert done.returncode == 1
    assert "the cluster there-already is served by another deployment" in done.stderr
    assert f"because its exporter publishes to {FIRST_TOPIC}" in done.stderr
    assert "run the destroy build of that deployment first" in done.stderr
    assert list_changes(bench) == []


def test_a_cluster_that_could_not_be_read_then_is_refused_before_its_exporter_is_replaced(bench: Bench) -> None:
    build_cloud.change(bench.world, exporters={})
    bench.run_all(PROVISION, SECOND)
    build_cloud.change(bench.world, calls=[], exporters={"there-already": FIRST_TOPIC})
    done = bench.run("provision-07-terraform.sh", bench.environ(PROVISION, SECOND))
    assert done.returncode == 1
    looks = [index for index, call in enumerate(build_cloud.read(bench.world)["calls"], 1) if call[0] == "kubectl"]
    build_cloud.change(bench.world, calls=[], fail_at=looks[0])
    done = bench.run("provision-07-terraform.sh", bench.environ(PROVISION, SECOND))
    assert done.returncode == 0, done.stderr
    assert "Not checked yet: whether another deployment serves there-already" in done.stdout

    build_cloud.change(bench.world, calls=[], fail_at=0)
    done = bench.run("provision-09-exporter.sh", bench.environ(PROVISION, SECOND))
    assert done.returncode == 1
    assert "is served by another deployment" in done.stderr
    assert list_changes(bench) == []


def test_the_destroy_build_keeps_the_exporter_of_another_deployment(bench: Bench) -> None:
    build_cloud.change(bench.world, exporters={})
    bench.run_all(PROVISION, SECOND)
    build_cloud.change(bench.world, calls=[], exporters={"there-already": FIRST_TOPIC})
    done = bench.run("destroy-02-exporter.sh", bench.environ(DESTROY, SECOND))

    assert done.returncode == 0, done.stderr
    assert (
        f"Kept: the exporter and the node pools in there-already, because it publishes to {FIRST_TOPIC}"
        in done.stdout
    )
    assert list_changes(bench) == []
    assert (bench.folder / "build/kept-clusters").read_text().endswith("/clusters/there-already\n")
    build_cloud.change(bench.world, exporters={"there-already": FIRST_TOPIC.replace("tpu-provisioner", "second")})
    done = bench.run("destroy-02-exporter.sh", bench.environ(DESTROY, SECOND))
    assert list_changes(bench) == ["kubectl delete", "kubectl delete"]
    assert (bench.folder / "build/kept-clusters").read_text() == ""


def test_the_clusters_that_are_checked_are_those_that_terraform_serves() -> None:
    main = {"name": "a", "location": "us-east5", "project": "p", "zone": ""}
    more = {"name": "b", "location": "us-east5-b", "endpoint": "private"}

    assert list_given({"project_id": "home", "clusters": {"main": main, "b": more}}) == [
        "b\thome\tus-east5-b\tb\t--internal-ip",
        "main\tp\tus-east5\ta\t--dns-endpoint",
    ]
    assert list_given({"project_id": "home"}) == []
