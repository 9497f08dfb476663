"""Two deployments: a cluster is served by one of them, and the end of one keeps the other."""

import pytest

from infra.build.render_variables import list_given
from tests.infra.build_scripts import BESIDE_A_CLUSTER, PROVISION, Bench, list_scripts

SECOND = BESIDE_A_CLUSTER | {"_NAME": "second"}
FIRST_TOPIC = "projects/a-project/topics/tpu-provisioner-workload-events"
CHANGES = ("terraform apply", "kubectl apply", "kubectl delete")


@pytest.fixture
def second(bench: Bench) -> Bench:
    """A deployment whose cluster the first one serves by now."""
    bench.run_all(PROVISION, SECOND)
    bench.change(calls=[], exporters={"there-already": FIRST_TOPIC})
    return bench


def list_changes(bench: Bench) -> list[str]:
    calls = [each for each in bench.calls if len(each) > 2]
    verbs = [f"{each[0]} {each[1 if each[0] == 'kubectl' else 2]}" for each in calls]
    return [each for each in verbs if each in CHANGES]


@pytest.mark.parametrize("plan_only", ["false", "true"])
def test_a_cluster_of_another_deployment_is_refused_before_anything_is_made(bench: Bench, plan_only: str) -> None:
    bench.change(exporters={"there-already": FIRST_TOPIC})
    given = SECOND | {"_PLAN_ONLY": plan_only}
    scripts = [script for script, _ in list_scripts(PROVISION)]
    for script in scripts[: scripts.index("provision-07-terraform.sh")]:
        bench.step(script, given)
    done = bench.step("provision-07-terraform.sh", given, code=1)

    assert "the cluster there-already is served by another deployment" in done.stderr
    assert f"because its exporter publishes to {FIRST_TOPIC}" in done.stderr
    assert "run the destroy build of that deployment first" in done.stderr
    assert list_changes(bench) == []


def test_a_cluster_that_could_not_be_read_then_is_refused_before_its_exporter_is_replaced(second: Bench) -> None:
    second.step("provision-07-terraform.sh", SECOND, code=1)
    looks = [index for index, call in enumerate(second.calls, 1) if call[0] == "kubectl"]
    second.change(calls=[], fail_at=looks[0])
    done = second.step("provision-07-terraform.sh", SECOND)
    assert "Not checked yet: whether another deployment serves there-already" in done.stdout

    second.change(calls=[], fail_at=0)
    done = second.step("provision-09-exporter.sh", SECOND, code=1)
    assert "is served by another deployment" in done.stderr
    assert list_changes(second) == []


def test_the_destroy_build_keeps_the_exporter_of_another_deployment(second: Bench) -> None:
    done = second.step("destroy-02-exporter.sh", SECOND)

    assert (
        f"Kept: the exporter and the node pools in there-already, because it publishes to {FIRST_TOPIC}"
        in done.stdout
    )
    assert list_changes(second) == []
    assert (second.folder / "build/kept-clusters").read_text().endswith("/clusters/there-already\n")
    second.change(exporters={"there-already": FIRST_TOPIC.replace("tpu-provisioner", "second")})
    second.step("destroy-02-exporter.sh", SECOND)
    assert list_changes(second) == ["kubectl delete", "kubectl delete"]
    assert (second.folder / "build/kept-clusters").read_text() == ""


def test_the_clusters_that_are_checked_are_those_that_terraform_serves() -> None:
    main = {"name": "a", "location": "us-east5", "project": "p", "zone": ""}
    more = {"name": "b", "location": "us-east5-b", "endpoint": "private"}

    assert list_given({"project_id": "home", "clusters": {"main": main, "b": more}}) == [
        "b\thome\tus-east5-b\tb\t--internal-ip",
        "main\tp\tus-east5\ta\t--dns-endpoint",
    ]
    assert list_given({"project_id": "home"}) == []
