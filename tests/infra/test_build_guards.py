"""What keeps a build from losing a user's resources: checks of state, plan and takeovers."""

from typing import Any

import pytest

from infra.build.adopt import find_existing, list_imports, refuse_strangers
from infra.build.check_plan import refuse_losses
from infra.build.check_state import find_difference
from tests.infra import pretended_deployment
from tests.infra.build_scripts import COMMAND_LINES, OLD_COMMAND_LINE, PROVISION, ROOT, Bench
from tests.infra.pretended_deployment import CLUSTER, a_change, a_plan, a_resource, a_state
from tests.infra.terraform_text import read_configuration

INPUTS = {
    "PROJECT_ID": "a-project",
    "REGION": "us-east5",
    "NAME": "tpu-provisioner",
    "CLUSTER_NAME": "training",
    "TF_STATE_BUCKET": "states",
    "TF_STATE_PREFIX": "here",
    "CREATE_ENVIRONMENT": "true",
}
BESIDE = {"CREATE_ENVIRONMENT": "false"}


def cluster_resource(**attributes: str) -> dict[str, Any]:
    named = {"name": "training", "location": "us-east5", "project": "a-project"}
    return a_resource(CLUSTER, **(named | attributes))


def served(key: str, name: str) -> dict[str, Any]:
    path = f"projects/a-project/locations/us-east5/clusters/{name}"
    return {"outputs": {"clusters": {"value": {key: {"path": path}}}}, "resources": []}


def half_made(name: str, key: str = "main") -> dict[str, Any]:
    """Return the state after a killed first build: no outputs, but what was read."""
    attributes = {"name": name, "location": "us-east5", "project": "a-project"}
    read = a_resource("module.provisioner.google_container_cluster.served", **attributes) | {"mode": "data"}
    read["instances"][0]["index_key"] = key
    return a_state(read, a_resource("module.provisioner.google_pubsub_topic.t"))


def test_what_the_guard_reads_of_a_half_made_state_is_what_terraform_reads() -> None:
    (read,) = read_configuration(ROOT / "infra/terraform/modules/provisioner").of(
        "data", "google_container_cluster"
    )
    assert read.body["for_each"] == "${local.clusters}"


def test_the_state_of_the_same_cluster_and_an_empty_one_fit() -> None:
    assert find_difference({}, INPUTS) == ""
    assert find_difference(a_state(cluster_resource()), INPUTS) == ""
    assert find_difference(served("main", "training"), INPUTS | BESIDE) == ""
    assert find_difference(half_made("training"), INPUTS | BESIDE) == ""
    assert find_difference(half_made("training", "environment"), INPUTS) == ""


@pytest.mark.parametrize(
    ("state", "inputs", "message"),
    [
        (
            a_state(cluster_resource(name="first")),
            {},
            "clusters/first, and the inputs name projects/a-project/locations/us-east5/clusters/training",
        ),
        (a_state(cluster_resource(location="us-east1")), {}, "locations/us-east1/clusters/training, and"),
        (a_state(cluster_resource(project="other")), {}, "projects/other/locations"),
        (served("environment", "first"), {}, "clusters/first, and"),
        (served("main", "first"), BESIDE, "clusters/first, and"),
        (served("main", "training"), BESIDE | {"CLUSTER_LOCATION": "us-east5-b"}, "us-east5-b"),
        (served("main", "training"), {}, "a provisioner without an environment; set CREATE_ENVIRONMENT=false"),
        (half_made("first"), BESIDE, "clusters/first, and"),
        (half_made("training"), {}, "a provisioner without an environment; set CREATE_ENVIRONMENT=false"),
        (a_state(cluster_resource()), BESIDE, "the state of an environment; set CREATE_ENVIRONMENT=true"),
        (
            a_state(cluster_resource() | {"module": "module.gke_cluster"}),
            {},
            "another configuration (it has module.gke_cluster.google_container_cluster.this)",
        ),
    ],
)
def test_a_state_of_something_else_is_refused_with_both_names(
    state: dict[str, Any], inputs: dict[str, str], message: str
) -> None:
    difference = find_difference(state, INPUTS | inputs)

    assert message in difference
    assert "gs://states/here" in difference


def change(kind: str, name: str, *actions: str) -> dict[str, Any]:
    return a_change(f"module.m.{kind}.this", *actions, before={"name": name})


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("google_container_cluster", "cluster"),
        ("google_container_node_pool", "pool"),
        ("google_storage_bucket", "bucket"),
        ("google_compute_network", "network"),
        ("google_compute_subnetwork", "subnet"),
        ("google_vertex_ai_tensorboard", "tensorboard"),
        ("google_artifact_registry_repository", "repository"),
    ],
)
@pytest.mark.parametrize(("actions", "how"), [(["delete"], "is deleted"), (["create", "delete"], "is replaced")])
def test_a_plan_that_loses_something_stops_with_the_list(
    kind: str, word: str, actions: list[str], how: str
) -> None:
    plan = a_plan(change(kind, "train", *actions), change("google_pubsub_topic", "t", "delete"))

    refused = refuse_losses(plan, "cluster/other")
    assert f"  {word}/train {how}\n" in refused
    assert "t " not in refused.replace("at ", "").split("\n")[1]
    assert (
        f"This plan is not applied. Correct the inputs. If this is what you want, set ALLOW_DELETE='{word}/train'"
        in refused
    )
    assert refuse_losses(plan, f"cluster/other, {word}/train") == ""


def test_a_cluster_that_terraform_would_not_delete_is_refused_also_if_it_is_named() -> None:
    cluster = change("google_container_cluster", "train", "delete", "create")
    cluster["change"]["before"]["deletion_protection"] = True
    cluster["action_reason"] = "replace_because_tainted"
    plan = a_plan(cluster, change("google_container_node_pool", "cpu", "delete", "create"))

    refused = refuse_losses(plan, "cluster/train pool/cpu")
    assert "  cluster/train is replaced, because its creation failed\n" in refused
    assert "run the destroy build, which alone deletes cluster/train, with the inputs that made it" in refused
    assert "ALLOW_DELETE" not in refused
    assert "pool/cpu" not in refused
    assert "  pool/cpu is replaced\n" in refuse_losses(plan, "")


def test_the_repository_of_the_functions_may_go_because_the_next_build_fills_it() -> None:
    functions = change("google_artifact_registry_repository", "functions", "delete", "create")
    address = "module.provisioner.google_artifact_registry_repository.functions"
    plan = a_plan(functions | {"address": address})

    assert refuse_losses(plan, "") == ""
    assert read_configuration(ROOT / "infra/terraform/modules/provisioner").of("resource", address.split(".")[2])


def test_a_plan_that_loses_nothing_passes() -> None:
    kinds = ("google_container_cluster", "google_storage_bucket")

    assert refuse_losses(a_plan(*(change(each, "train", "update") for each in kinds)), "") == ""


ERRORS = """\
\x1b[31m╷\x1b[0m
\x1b[31m│\x1b[0m \x1b[1m\x1b[31mError: \x1b[0mError creating Network: Error 409: network "x" already exists
\x1b[31m│\x1b[0m
\x1b[31m│\x1b[0m   with module.environment.google_compute_network.this[0],
\x1b[31m│\x1b[0m   on ../modules/environment/network.tf line 14:
\x1b[31m╵\x1b[0m
\x1b[31m╷\x1b[0m
\x1b[31m│\x1b[0m \x1b[1m\x1b[31mError: \x1b[0mError creating Topic: googleapi: Error 403: denied
\x1b[31m│\x1b[0m   with module.provisioner.google_pubsub_topic.workload_events,
\x1b[31m╵\x1b[0m
\x1b[31m│\x1b[0m \x1b[1m\x1b[31mError: \x1b[0mError creating account: alreadyExists
\x1b[31m│\x1b[0m   with module.provisioner.google_service_account.this["build"],
\x1b[31m│\x1b[0m \x1b[1m\x1b[31mError: \x1b[0mCustom project role r already exists and must be imported
\x1b[31m│\x1b[0m   with module.provisioner.google_project_iam_custom_role.node_pools["p"],
"""


def test_only_what_exists_already_is_taken_over() -> None:
    network = "module.environment.google_compute_network.this[0]"
    account = 'module.provisioner.google_service_account.this["build"]'
    role = 'module.provisioner.google_project_iam_custom_role.node_pools["p"]'
    plan = a_plan(
        a_change(network, "create", after={"project": "p", "name": "training", "mtu": 1460}),
        a_change(account, "create", after={"project": "p", "account_id": "b"}),
        a_change(role, "create", after={"project": "p", "role_id": "r"}),
    )

    assert find_existing(ERRORS) == [network, account, role]
    blocks = list(list_imports(plan, find_existing(ERRORS)))
    assert blocks == [
        f'import {{\n  to = {network}\n  id = "projects/p/global/networks/training"\n}}\n',
        f'import {{\n  to = {account}\n  id = "projects/p/serviceAccounts/b@p.iam.gserviceaccount.com"\n}}\n',
        f'import {{\n  to = {role}\n  id = "projects/p/roles/r"\n}}\n',
    ]


def test_what_terraform_does_not_know_yet_and_unknown_types_are_not_taken_over() -> None:
    pool, board = "module.m.google_container_node_pool.a", "module.m.google_monitoring_dashboard.b"
    plan = a_plan(
        a_change(pool, "create", after={"name": "cpu"}), a_change(board, "create", after={"project": "p"})
    )
    assert list(list_imports(plan, [pool, board, "e.f"])) == []


@pytest.mark.parametrize(
    ("kind", "before", "ours"),
    [
        ("google_container_cluster", {"name": "training", "effective_labels": {"app": "tpu-provisioner"}}, True),
        ("google_container_cluster", {"name": "training", "effective_labels": {"app": "blue"}}, False),
        ("google_storage_bucket", {"name": "training", "effective_labels": None}, False),
        ("google_storage_bucket", {"name": "tpu-provisioner-data", "effective_labels": {}}, False),
        ("google_compute_network", {"name": "training", "description": None}, False),
        ("google_compute_network", {"name": "tpu-provisioner-net", "description": "x"}, False),
        (
            "google_compute_network",
            {"name": "training", "description": "TPU Provisioner's environment of the cluster training"},
            True,
        ),
        (
            "google_compute_network",
            {"name": "training", "description": "TPU Provisioner's environment of the cluster other"},
            False,
        ),
        ("google_service_account", {"account_id": "gke-sa", "display_name": "Nodes of cluster training"}, True),
        ("google_service_account", {"account_id": "gke-sa", "display_name": "Mine"}, False),
        ("google_service_account", {"account_id": "tpu-provisioner-push", "display_name": "ours"}, True),
        ("google_service_account", {"account_id": "tpu-provisioner-nodes", "display_name": "Mine"}, False),
        ("google_service_account", {"account_id": "another-push", "display_name": "ours"}, False),
        ("google_cloud_scheduler_job", {"name": "tpu-provisioner-sweep", "description": ""}, False),
        ("google_logging_metric", {"name": "tpu-provisioner/sweeps", "description": "what we write"}, True),
        (
            "google_monitoring_slo",
            {"name": "projects/1/services/s", "display_name": "tpu-provisioner: calls"},
            True,
        ),
        ("google_monitoring_slo", {"name": "projects/1/services/s", "display_name": "blue: calls"}, False),
        ("google_project_iam_custom_role", {"title": "tpu-provisioner: node pools"}, True),
        ("google_project_iam_custom_role", {"title": "blue: node pools"}, False),
        ("google_container_node_pool", {"name": "cpu-node-pool"}, True),
    ],
)
def test_what_another_has_made_is_not_taken_over(kind: str, before: dict[str, Any], ours: bool) -> None:
    kept = kind.startswith("google_compute_")  # a plan ignores another description of these
    after = before if kept else before | {"description": "what we write", "display_name": "ours"}
    after = {name: value for name, value in after.items() if name in before}
    change = a_change(f"module.m.{kind}.b", importing={"id": "the-id"}, before=before, after=after)
    refusal = refuse_strangers(a_plan(change), INPUTS)

    assert (refusal == "") == ours
    # An earlier plan of the same build may have been applied in part.
    assert ours or f"module.m.{kind}.b (the-id)\nThis plan is not applied. Give other names" in refusal


def run(bench: Bench, script: str, *, code: int = 0, **values: str) -> tuple[str, list[str]]:
    """Run a script, which must end so; return its words, and the programs that it called."""
    bench.change(calls=[])
    given = {f"_{name}": value for name, value in values.items()}
    done = bench.step(script, OLD_COMMAND_LINE | given, code=code)
    return done.stdout + done.stderr, [" ".join(call[:3]) for call in bench.calls]


@pytest.mark.parametrize("script", ["provision-07-terraform.sh", "terraform-init.sh"])
def test_a_second_cluster_name_is_refused_before_anything_is_planned(environment: Bench, script: str) -> None:
    output, calls = run(environment, script, code=1, CLUSTER_NAME="second")

    assert (
        "clusters/tpu-cluster, and the inputs name projects/a-project/locations/us-east5/clusters/second" in output
    )
    assert not any(verb in call for call in calls for verb in (" plan", " apply", " destroy"))


@pytest.mark.parametrize("name", COMMAND_LINES)
@pytest.mark.parametrize("deployed", [True, False])
def test_a_plan_only_build_changes_nothing_and_every_build_keeps_to_the_lock_file_of_the_provider(
    request: pytest.FixtureRequest, name: str, deployed: bool
) -> None:
    bench: Bench = request.getfixturevalue(name if deployed else "bench")
    before, first = bench.state, bench.calls
    message = "".join(bench.run_all(PROVISION, COMMAND_LINES[name] | {"_PLAN_ONLY": "true"}))

    assert bench.state | {"state_object": ""} == before | {"state_object": ""}
    assert message.count("Only planned: ") == 8
    assert sum("plan" in call for call in bench.calls[len(first) :]) == 1
    inits = [call for call in bench.calls if call[0] == "terraform" and "init" in call]
    assert len(inits) == (2 if deployed else 1)
    assert all("-lockfile=readonly" in call for call in inits)


def test_the_destroy_build_refuses_to_be_a_plan(environment: Bench) -> None:
    output, calls = run(environment, "destroy-01-workloads.sh", code=1, PLAN_ONLY="true")

    assert calls == []
    assert "PLAN_ONLY" in output


@pytest.mark.parametrize("delete", ["false", "true"])
def test_destroy_keeps_the_checkpoints_and_the_users_images_unless_they_are_named(
    bench: Bench, delete: str
) -> None:
    bench.run_all(PROVISION, OLD_COMMAND_LINE | {"_IMAGE_REPOSITORY": "training"})
    for script in ("check-inputs.sh", "terraform-init.sh"):
        run(bench, script)
    output, _ = run(bench, "destroy-05-terraform.sh", DELETE_ARTIFACTS=delete)
    calls = [" ".join(call) for call in bench.calls]

    kept = [call for call in calls if f"state rm -lock-timeout=20m {pretended_deployment.ARTIFACTS}" in call]
    assert bool(kept) == ("Kept: gs://training-artifacts" in output) == (delete == "false")
    kept = [call for call in calls if f"state rm -lock-timeout=20m {pretended_deployment.IMAGES}" in call]
    assert bool(kept) == ("Kept: the repository of the users' images" in output) == (delete == "false")
    assert pretended_deployment.CLUSTER in bench.world["unprotected"]
    assert (pretended_deployment.ARTIFACTS in bench.world["unprotected"]) == (delete == "true")


def test_what_destroy_kept_is_imported_by_the_plan(bench: Bench) -> None:
    given = OLD_COMMAND_LINE | {"_IMAGE_REPOSITORY": "training"}
    held = {"gs://training-artifacts": {"versioned": False, "objects": ["checkpoint"]}}
    bench.change(buckets=held, repositories=["a-project/training"])
    message = "".join(bench.run_all(PROVISION, given))

    adopted = (bench.folder / "build/roots/complete/adopted.tf").read_text()
    assert f'to = {pretended_deployment.ARTIFACTS}\n  id = "a-project/training-artifacts"\n' in adopted
    repository = "projects/a-project/locations/us-east5/repositories/training"
    assert f'to = {pretended_deployment.IMAGES}\n  id = "{repository}"\n' in adopted
    assert "gs://training-artifacts exists already" in message
    again = "".join(bench.run_all(PROVISION, given))
    assert "exists already" not in again  # the state has them now


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ("ERROR: 403 storage.buckets.get is denied (or it may not exist)", "cannot be read; if it belongs to"),
        ("ERROR: SERVICE_DISABLED: the API has not been used in project 1 before or it is disabled", ""),
    ],
)
def test_a_bucket_of_others_stops_the_build_before_anything_is_made(
    bench: Bench, answer: str, complaint: str
) -> None:
    for script in ("provision-02-state-bucket.sh", "provision-03-functions.sh"):
        run(bench, script)
    _, calls = run(bench, "provision-07-terraform.sh", PLAN_ONLY="true")
    place = next(index for index, call in enumerate(calls) if call == "gcloud storage buckets") + 1
    place += calls[place:].index("gcloud storage buckets") + 1
    bench.change(fail_at=place, fail_text=answer)
    output, calls = run(bench, "provision-07-terraform.sh", code=1 if complaint else 0, PLAN_ONLY="true")

    assert ("gs://training-artifacts " + complaint in output) == bool(complaint)
    assert any(" plan" in call for call in calls) == (not complaint)
