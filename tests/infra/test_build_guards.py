"""What keeps a build from losing a user's resources: checks of state, plan and takeovers."""

import json
from typing import Any

import pytest

from infra.build.adopt import refuse_strangers
from infra.build.check_plan import refuse_losses
from infra.build.check_state import find_difference, find_kept_difference
from infra.build.move_grants import list_moves
from tests.infra.build_scripts import BUILD
from tests.infra.pretended_deployment import (
    ARTIFACTS,
    CLUSTER,
    IMAGES,
    TOPIC,
    a_change,
    a_plan,
    a_resource,
    a_state,
)
from tests.program_runs import run_python

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


def test_the_state_of_the_same_cluster_and_an_empty_one_fit() -> None:
    assert find_difference({}, INPUTS) == ""
    assert find_difference(a_state(cluster_resource()), INPUTS) == ""
    assert find_difference(served("main", "training"), INPUTS | BESIDE) == ""
    assert find_difference(half_made("training"), INPUTS | BESIDE) == ""
    assert find_difference(half_made("training", "environment"), INPUTS) == ""
    ours = a_resource(TOPIC, project="a-project", name="tpu-provisioner-workload-events")
    assert find_difference(a_state(ours), INPUTS | BESIDE) == ""


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
            a_state(a_resource(TOPIC, project="another", name="blue-workload-events")),
            {},
            "is the state of the deployment blue of another, and the inputs name tpu-provisioner of",
        ),
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


def test_what_destroy_may_keep_has_the_name_that_the_inputs_give() -> None:
    made = [a_resource(ARTIFACTS, name="artifacts"), a_resource(IMAGES, repository_id="images")]
    given = INPUTS | {"ARTIFACT_REPOSITORY_BUCKET_NAME": "artifacts", "IMAGE_REPOSITORY": "images"}

    assert find_kept_difference(a_state(*made), given) == find_kept_difference(a_state(), {}) == ""
    assert find_kept_difference(a_state(*made), given | {"IMAGE_REPOSITORY": ""}) == (
        "IMAGE_REPOSITORY: is not what this deployment has (got: ); valid: images"
    )


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
        ("google_compute_router_nat", "nat"),
        ("google_pubsub_topic", "topic"),
        ("google_pubsub_subscription", "subscription"),
    ],
)
@pytest.mark.parametrize(("actions", "how"), [(["delete"], "is deleted"), (["create", "delete"], "is replaced")])
def test_a_plan_that_loses_something_stops_with_the_list(
    kind: str, word: str, actions: list[str], how: str
) -> None:
    plan = a_plan(change(kind, "train", *actions), change("google_logging_metric", "t", "delete"))

    refused = refuse_losses(plan, "cluster/other")
    assert f"  {word}/train {how}\n" in refused
    assert "t " not in refused.replace("at ", "").split("\n")[1]
    assert (
        f"This plan is not applied. Correct the inputs. If this is what you want, set ALLOW_DELETE='{word}/train'"
        in refused
    )
    assert refuse_losses(plan, f"cluster/other, {word}/train") == ""


def test_what_holds_nothing_may_go() -> None:
    gone = [
        a_change(f"module.provisioner.{each}", "delete", before={"name": "x"})
        for each in ("google_pubsub_topic.nodepool_events[0]", 'google_pubsub_subscription.ends["collect"]')
    ]

    assert refuse_losses(a_plan(*gone), "") == ""


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


def update_pool(**after: Any) -> dict[str, Any]:
    node = {"machine_type": "e2-standard-4", "disk_size_gb": 200}
    before = {"name": "cpu-node-pool", "node_count": 3, "node_config": [node], "node_locations": ["a", "b"]}
    address = "module.environment.google_container_node_pool.cpu"
    return a_plan(a_change(address, "update", before=before, after=before | after))


def test_a_pool_that_gets_less_is_not_updated_unasked() -> None:
    smaller = update_pool(node_config=[{"machine_type": "e2-standard-2", "disk_size_gb": 30}])
    refused = refuse_losses(smaller, "")
    assert (
        "  pool/cpu-node-pool gets fewer or smaller nodes (machine_type e2-standard-4 to e2-standard-2, "
        "disk_size_gb 200 to 30); to keep them, give the pool's present values in TERRAFORM_VARIABLES\n"
    ) in refused
    assert refuse_losses(smaller, "pool/cpu-node-pool") == ""
    assert "node_count 3 to 2" in refuse_losses(update_pool(node_count=2), "")
    assert "(none in a, none in b)" in refuse_losses(update_pool(node_locations=["c"]), "")
    larger = [{"machine_type": "n2-standard-8", "disk_size_gb": 300}]
    for plan in (
        update_pool(node_locations=["a", "b", "c"]),
        update_pool(node_count=4),
        update_pool(node_config=larger),
    ):
        assert refuse_losses(plan, "") == ""


GRANT = "module.environment.google_storage_bucket_iam_member.workload"


def grant(key: str, *actions: str, before: str = "", after: str = "", bucket: str = "b") -> dict[str, Any]:
    """Return the change of one grant on the bucket, in these namespaces."""
    members = [f"principal://x/subject/ns/{each}/sa/cloud-tpu-sa" if each else "" for each in (before, after)]
    values = [{"bucket": bucket, "role": "r", "member": each} if each else None for each in members]
    return a_change(f'{GRANT}["{key}"]', *actions, before=values[0], after=values[1])


def test_another_namespace_does_not_take_the_bucket_from_running_jobs() -> None:
    lost = grant("r", "delete", "create", before="tpu-training", after="research")
    refused = refuse_losses(a_plan(lost), "")
    assert "namespace/tpu-training loses its grants, and its jobs that run lose the bucket" in refused
    assert "MORE_NAMESPACES=tpu-training keeps them" in refused
    assert refuse_losses(a_plan(lost), "namespace/tpu-training") == ""

    kept = [grant("a", "delete", before="t"), grant("b", "no-op", before="t", after="t")]
    exporter = grant("c", "delete", before="e") | {
        "address": "module.provisioner.google_pubsub_topic_iam_member.e"
    }
    assert refuse_losses(a_plan(*kept, exporter), "") == ""


def test_a_grant_that_moves_to_another_address_is_moved_and_not_deleted() -> None:
    moved = [
        grant("r", "delete", "create", before="tpu-training", after="research", bucket="b/b"),  # as a state has it
        grant("in tpu-training r", "create", after="tpu-training"),
        grant("in other r", "create", after="other"),
    ]

    assert refuse_losses(a_plan(*moved), "") == ""
    assert list(list_moves(a_plan(*moved))) == [(f'{GRANT}["r"]', f'{GRANT}["in tpu-training r"]')]


@pytest.mark.parametrize(
    ("kind", "before", "ours"),
    [
        ("google_container_cluster", {"name": "training", "effective_labels": {"app": "tpu-provisioner"}}, True),
        ("google_container_cluster", {"name": "training", "effective_labels": {"app": "blue"}}, False),
        ("google_storage_bucket", {"name": "tpu-provisioner-data", "effective_labels": {}}, False),
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
        ("google_service_account", {"account_id": "tpu-provisioner-push", "display_name": "ours"}, True),
        ("google_service_account", {"account_id": "tpu-provisioner-nodes", "display_name": "Mine"}, False),
        ("google_service_account", {"account_id": "another-push", "display_name": "ours"}, False),
        ("google_logging_metric", {"name": "tpu-provisioner/ticks", "description": "what we write"}, True),
        (
            "google_monitoring_slo",
            {"name": "projects/1/services/s", "display_name": "tpu-provisioner: calls"},
            True,
        ),
        ("google_monitoring_slo", {"name": "projects/1/services/s", "display_name": "blue: calls"}, False),
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


def test_a_protection_is_lifted_in_the_state_which_gets_a_higher_serial() -> None:
    def resource(kind: str, **attributes: object) -> dict[str, Any]:
        instances = [{"status": "tainted", "attributes": {"name": "x"} | attributes}]
        return {"mode": "managed", "module": "module.m", "type": kind, "name": "this", "instances": instances}

    kinds = ("google_container_cluster", "google_storage_bucket")
    given = [resource(kinds[0], deletion_protection=True), resource(kinds[1], force_destroy=False)]
    state = {"serial": 7, "lineage": "l", "resources": given}
    wanted = [resource(kinds[0], deletion_protection=False), resource(kinds[1], force_destroy=True)]

    both = run_python(
        BUILD / "unprotect.py", *(f"module.m.{kind}.this" for kind in kinds), input=json.dumps(state)
    )
    assert json.loads(both.stdout) == state | {"serial": 8, "resources": wanted}
    absent = run_python(BUILD / "unprotect.py", "module.m.google_x.other", input=json.dumps(state))
    assert (absent.returncode, absent.stdout) == (1, "")
    assert "module.m.google_x.other is not in the state" in absent.stderr
