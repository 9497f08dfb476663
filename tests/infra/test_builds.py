"""The build files' scripts in order on a pretended cloud: whole walks, and what they refuse."""

from tests.infra.bench import DESTROY, PROVISION, PUBLIC, Bench
from tests.infra.pretended_cloud import BUCKET, DIGEST, REGION, TOPIC

STATE = {"_TF_STATE_BUCKET": "old-state", "_TF_STATE_PREFIX": "tpu-environment"}
FILE = 'environment = { zone = "us-east5-b", cluster_name = "tpu-cluster" }\n'


def test_the_public_command_line_makes_an_environment_once_and_destroys_it_in_order(bench: Bench) -> None:
    bench.build(PROVISION, **PUBLIC)
    first = bench.state
    assert (bench.folder / "build/exporter-image").read_text().strip().endswith(f"/exporter@{DIGEST}")
    assert first["installed"] == ["exporter", "jobset", "kueue"]
    assert [each for each in first["objects"] if "inputs" in each] == [
        f"old-state/tpu-environment/inputs/{name}" for name in ("deployment.tfvars", "substitutions.json")
    ]
    assert bench.read_variables() == {name[1:]: PUBLIC[name] for name in PUBLIC if name not in STATE}

    bench.build(PROVISION, **PUBLIC)
    assert bench.state | {"installed": []} == first | {"installed": []}
    assert sum(each.startswith("docker build ") for each in bench.calls) == 1
    assert bench.build(PROVISION, **PUBLIC, _PLAN_ONLY="true").count("Only planned: ") == 4

    begin = len(bench.calls)
    bench.build(DESTROY, **STATE)
    order = [
        "gcloud container node-pools list",
        "kubectl get pods",
        f"gcloud scheduler jobs pause {REGION}/jobs/provision",
        "modify-push-config projects/a-project/subscriptions/collect_ends",
        "kubectl delete namespace tpu-provisioner",
        "terraform apply -auto-approve",
        f"terraform destroy -auto-approve .* -target={TOPIC}",
    ]
    later = "\n".join(bench.calls[begin:])
    places = [later.index(each.partition(" .* ")[0]) for each in order]
    assert places == sorted(places)
    assert "dead_letters" not in later
    assert bench.state["state"] == [BUCKET], "the checkpoints stay, and so does the state that knows them"
    assert "state push" not in later
    assert "state rm" not in later

    bench.build(DESTROY, **STATE, _DELETE_ARTIFACTS="true", _DELETE_STATE="true")
    assert (bench.state["state"], bench.state["objects"]) == ([], [])


def test_what_a_later_build_forgets_stays_and_a_difference_is_shown(bench: Bench) -> None:
    bench.write_inputs(FILE + "limit_chips = 16\n")
    bench.build(PROVISION, _NAMESPACE="jobs")
    bench.write_inputs(FILE + "limit_chips = 8\n")
    said = bench.build(PROVISION)
    assert "-limit_chips = 16\n+limit_chips = 8" in said
    # A file says all that the build is not told.
    assert bench.read_variables() == {}

    bench.write_inputs(None)
    said = bench.build(PROVISION, _TPU_TYPE="v4-8")
    assert "The source has no deployment.tfvars, so that of the last build is taken" in said
    assert (bench.folder / "build/inputs/deployment.tfvars").read_text() == FILE + "limit_chips = 8\n"
    bench.build(PROVISION)
    assert bench.read_variables() == {"TPU_TYPE": "v4-8"}


def test_a_build_that_was_killed_in_helm_does_not_stop_the_next_one(bench: Bench) -> None:
    bench.build(PROVISION, **PUBLIC)
    lines = bench.calls
    upgrade = next(index for index, each in enumerate(lines) if each.startswith("helm upgrade"))

    assert "kubectl --namespace=default delete secret" in lines[upgrade - 1]
    assert "status in (pending-install,pending-upgrade,pending-rollback)" in lines[upgrade - 1]
    # The namespace, which may have a stop, is left alone.
    assert not [each for each in lines if "delete namespace" in each]


def test_an_unreadable_served_cluster_is_the_only_reason_to_destroy_without_reading(bench: Bench) -> None:
    bench.build(PROVISION, **PUBLIC)
    vars(bench.cloud).update(refusals={"terraform destroy": "Error: googleapi: Error 403: Permission denied"})
    assert "Terraform failed; correct what it says above" in bench.refuse(DESTROY, **STATE)
    assert not [each for each in bench.calls if "-refresh=false" in each]

    gone = 'Error: data.google_container_cluster.served["main"]: Error 404: Not found'
    vars(bench.cloud).update(refusals={"terraform destroy(?!.*-refresh=false)": gone})
    bench.build(DESTROY, **STATE)
    assert bench.state["state"] == [BUCKET]


def test_force_asks_no_cluster_and_deletes_the_deployments_pools(bench: Bench) -> None:
    own = {"tpu-provisioner-deployment": "a-project_tpu-provisioner"}
    labels = {"google.com/nodepool-manager": "tpu-provisioner"}
    pools = [
        {"name": "ours", "config": {"labels": labels, "resourceLabels": own}},
        {"name": "of-go", "config": {"labels": labels}},
        {"name": "cpu-node-pool", "config": {}},
    ]
    bench.build(PROVISION, **PUBLIC)
    vars(bench.cloud).update(pools=pools)
    assert "node pool ours" in bench.refuse(DESTROY, **STATE)
    assert bench.cloud.paused == []

    bench.build(DESTROY, **STATE, _FORCE="true")
    assert [each["name"] for each in bench.cloud.pools] == ["of-go", "cpu-node-pool"]
