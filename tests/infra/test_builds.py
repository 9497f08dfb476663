"""The build files' scripts in order on a pretended cloud: whole walks, and what they refuse."""

from tests.infra.bench import BUCKET, DESTROY, DIGEST, PROVISION, PUBLIC, REGION, STATE, TOPIC, Bench, a_pool

FILE = 'environment = { zone = "us-east5-b", cluster_name = "tpu-cluster" }\n'


def test_the_public_command_line_makes_an_environment_once_and_destroys_it_in_order(bench: Bench) -> None:
    bench.build(PROVISION, **PUBLIC)
    first = bench.state
    upgrade = next(place for place, each in enumerate(bench.calls) if each.startswith("helm upgrade"))
    assert "delete secret" in bench.calls[upgrade - 1], "a build that was killed in Helm stops the next one"
    assert "status in (pending-install,pending-upgrade,pending-rollback)" in bench.calls[upgrade - 1]
    assert not [each for each in bench.calls if "delete namespace" in each], "it may have a stop"
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
    others = [a_pool("of-go", deployment=None), {"name": "cpu-node-pool", "config": {}}]
    bench.build(PROVISION, **PUBLIC)
    bench.cloud.pools = [a_pool("ours"), *others]
    bench.build(DESTROY, **STATE, _FORCE="true")
    assert bench.cloud.pools == others
