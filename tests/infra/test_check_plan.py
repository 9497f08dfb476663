"""Which plans are refused: what carries traffic or data, and what bounds the bill."""

from typing import Any

import pytest

from infra.build.check_plan import find_refusal
from tests.rows import rows

Json = dict[str, Any]
KEPT = {
    "google_compute_router": "router",
    "google_compute_router_nat": "nat",
    "google_compute_network": "network",
    "google_compute_subnetwork": "subnet",
    "google_container_node_pool": "pool",
    "google_monitoring_notification_channel": "channel",
    "google_pubsub_subscription": "subscription",
    "google_pubsub_topic": "topic",
    "google_storage_bucket": "bucket",
    "google_vertex_ai_tensorboard": "tensorboard",
    "google_artifact_registry_repository": "repository",
}
CLUSTER = "google_container_cluster"


def a_change(kind: str, name: str, *actions: str, **after: Any) -> Json:
    """What a plan does with one resource, as `terraform show -json` has it."""
    nodes = {"machine_type": "n2-standard-2", "disk_size_gb": 30}
    before = {"name": name, "node_config": [nodes], "node_count": 3}
    change = {"actions": [*actions], "before": before, "after": before | after}
    return {"address": f"module.environment[0].{kind}.this", "type": kind, "change": change}


def a_deployment(limit: int, identity: str = "p n us-central1 us-central1/training", *, before: int = 16) -> Json:
    made = {"identity": "p n us-central1 us-central1/training", "limit_chips": before}
    asked = {"identity": identity, "limit_chips": limit}
    change = {"actions": ["update"], "before": {"output": made}, "after": {"input": asked}}
    return {"address": "terraform_data.deployment", "type": "terraform_data", "change": change}


def a_new_deployment() -> Json:
    return a_deployment(256) | {"change": {"actions": ["create"], "before": None, "after": {}}}


def refuse(*changes: Json, allowed: str = "") -> str:
    return find_refusal({"resource_changes": [*changes]}, allowed)


@pytest.mark.parametrize(("kind", "word"), KEPT.items())
@pytest.mark.parametrize(("actions", "how"), [(("delete",), "is deleted"), (("delete", "create"), "is replaced")])
def test_what_carries_traffic_or_data_is_not_taken_away_unasked(
    kind: str, word: str, actions: tuple[str, ...], how: str
) -> None:
    lost = a_change(kind, "x", *actions)

    assert f"  {word}/x {how}\n" in refuse(lost)
    assert f"set _ALLOW='{word}/x'" in refuse(lost)
    assert refuse(lost, allowed=f"other {word}/x") == ""


def a_node_pool(**after: Any) -> Json:
    return a_change("google_container_node_pool", "cpu", "update", **after)


SECOND = a_deployment(16, "p n us-central1 us-central1/second")
NAT = [a_change("google_compute_router", "r", "delete"), a_change("google_compute_router_nat", "n", "delete")]


@rows(
    "changes allowed answer",
    {
        "nat and its router": (NAT, "", "set _ALLOW='nat/n router/r'"),
        "nat, and only its router may go": (NAT, "router/r", "nat/n is deleted"),
        "the cluster, whatever is allowed": (
            [a_change(CLUSTER, "c", "delete")],
            "cluster/c",
            "takes the cluster c away",
        ),
        "another deployment, whatever is allowed": (
            [SECOND],
            "limit_chips",
            "the state is that of the deployment",
        ),
        "a limit that is forgotten": ([a_deployment(0)], "", "limit_chips is raised from 16 to 0"),
        "other machines": ([a_node_pool(node_config=[{"machine_type": "n2-standard-4"}])], "", "machine_type"),
        "a higher limit, allowed": ([a_deployment(17)], "limit_chips", ""),
        "a first limit": ([a_deployment(17, before=0)], "", ""),
        "the same limit": ([a_deployment(16)], "", ""),
        "a lower limit": ([a_deployment(8)], "", ""),
        "more nodes with larger disks": ([a_node_pool(node_count=4, node_config=[{"disk_size_gb": 50}])], "", ""),
        "a newer version": ([a_node_pool(version="1.34")], "", ""),
        "a new deployment": ([a_new_deployment(), a_change("google_pubsub_topic", "t", "create")], "", ""),
        "a topic that stays": ([a_change("google_pubsub_topic", "t", "no-op")], "", ""),
    },
)
def test_only_what_takes_away_or_weakens_is_refused(changes: list[Json], allowed: str, answer: str) -> None:
    """The further refusals are mistakes of docs/deploy.md: tests/infra/test_mistakes.py."""
    refusal = refuse(*changes, allowed=allowed)

    assert answer in refusal
    assert bool(refusal) is bool(answer)
