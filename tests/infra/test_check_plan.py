"""Which plans are refused: what carries traffic or data, and what bounds the bill."""

from typing import Any

import pytest

from infra.build.check_plan import find_refusal

Json = dict[str, Any]


def a_change(kind: str, name: str, *actions: str, **after: Any) -> Json:
    """What a plan does with one resource, as `terraform show -json` has it."""
    before = {
        "name": name,
        "node_config": [{"machine_type": "n2-standard-2", "disk_size_gb": 30}],
        "node_count": 3,
    }
    change = {"actions": [*actions], "before": before, "after": before | after}
    return {"address": f"module.environment[0].{kind}.this", "type": kind, "change": change}


def a_deployment(limit: int, identity: str = "p n us-central1 us-central1/training", *, before: int = 16) -> Json:
    made = {"identity": "p n us-central1 us-central1/training", "limit_chips": before}
    asked = {"identity": identity, "limit_chips": limit}
    change = {"actions": ["update"], "before": {"output": made}, "after": {"input": asked}}
    return {"address": "terraform_data.deployment", "type": "terraform_data", "change": change}


def refuse(*changes: Json, allowed: str = "") -> str:
    return find_refusal({"resource_changes": [*changes]}, allowed)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("google_compute_router", "router"),
        ("google_compute_router_nat", "nat"),
        ("google_compute_network", "network"),
        ("google_compute_subnetwork", "subnet"),
        ("google_container_node_pool", "pool"),
        ("google_monitoring_notification_channel", "channel"),
        ("google_pubsub_subscription", "subscription"),
        ("google_pubsub_topic", "topic"),
        ("google_storage_bucket", "bucket"),
        ("google_vertex_ai_tensorboard", "tensorboard"),
        ("google_artifact_registry_repository", "repository"),
    ],
)
@pytest.mark.parametrize(("actions", "how"), [(("delete",), "is deleted"), (("delete", "create"), "is replaced")])
def test_what_carries_traffic_or_data_is_not_taken_away_unasked(
    kind: str, word: str, actions: tuple[str, ...], how: str
) -> None:
    lost = a_change(kind, "x", *actions)

    assert f"  {word}/x {how}\n" in refuse(lost)
    assert f"set _ALLOW='{word}/x'" in refuse(lost)
    assert refuse(lost, allowed=f"other {word}/x") == ""


def test_a_public_environment_does_not_take_nat_from_nodes_that_stay_private() -> None:
    lost = [a_change("google_compute_router", "r", "delete"), a_change("google_compute_router_nat", "n", "delete")]

    assert "set _ALLOW='nat/n router/r'" in refuse(*lost)
    assert "nat/n is deleted" in refuse(*lost, allowed="router/r")


@pytest.mark.parametrize(
    ("limit", "refused"), [(16, False), (8, False), (17, True), (256, True), (0, True)], ids=str
)
def test_a_limit_is_not_raised_by_a_forgotten_input(limit: int, refused: bool) -> None:
    answer = refuse(a_deployment(limit))

    assert bool(answer) is refused
    assert not refused or f"limit_chips is raised from 16 to {limit}" in answer
    assert refuse(a_deployment(limit), allowed="limit_chips") == ""
    assert refuse(a_deployment(limit, before=0)) == ""


def test_another_deployment_under_the_same_state_is_refused_in_any_case() -> None:
    answer = refuse(a_deployment(16, "p n us-central1 us-central1/second"), allowed="limit_chips")

    assert "the state is that of the deployment (p n us-central1 us-central1/training)" in answer


def test_a_cluster_is_left_to_the_destroy_build() -> None:
    lost = a_change("google_container_cluster", "training", "delete", "create")

    assert "takes the cluster training away" in refuse(lost, allowed="cluster/training")


@pytest.mark.parametrize(
    ("after", "refused"),
    [
        ({"node_count": 2}, True),
        ({"node_count": 4}, False),
        ({"node_config": [{"machine_type": "n2-standard-4", "disk_size_gb": 30}]}, True),
        ({"node_config": [{"machine_type": "n2-standard-2", "disk_size_gb": 50}]}, False),
        ({"version": "1.34"}, False),
    ],
    ids=str,
)
def test_pods_of_a_pool_keep_their_place(after: Json, refused: bool) -> None:
    assert bool(refuse(a_change("google_container_node_pool", "cpu", "update", **after))) is refused


def test_a_namespace_keeps_its_bucket_while_its_jobs_run() -> None:
    grant = a_change("google_storage_bucket_iam_member", "", "delete")
    member = "principal://iam.googleapis.com/x/subject/ns/research/sa/cloud-tpu-sa"
    grant["change"]["before"] = {"member": member}

    assert "grant/research/sa/cloud-tpu-sa is deleted" in refuse(grant)


def test_a_new_deployment_and_one_that_only_grows_are_applied() -> None:
    made = {"actions": ["create"], "before": None, "after": {"input": {"identity": "x", "limit_chips": 256}}}
    new = {"address": "terraform_data.deployment", "type": "terraform_data", "change": made}

    assert (
        refuse(new, a_change("google_pubsub_topic", "t", "create"), a_change("google_pubsub_topic", "t", "no-op"))
        == ""
    )
