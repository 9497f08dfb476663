"""`status` names node pools of ours whose owner labels a person removed, and what heals each."""

import dataclasses

import pytest

from cli.board.readings import Readings
from cli.fleet.unlabelled_pools import find_unlabelled
from shared.model import labels
from shared.model.names import build_pool_name
from shared.model.pools import PoolSnapshot, PoolStatus
from tests.builders import CLUSTER, a_claim, a_foreign_pool, a_go_pool, a_pool
from tests.cli.cli_world import a_deployment, read_json, run
from tests.component.world import World

NAME = build_pool_name(a_claim())
WHOLE = a_pool()
DELETE = "when nothing runs on it, delete it: gcloud container node-pools delete "
GIVE_BACK = "put them back: gcloud container node-pools update "


@pytest.fixture
def world(world: World) -> World:
    """Nothing waits."""
    world.cluster.pods.clear()
    return world


def without(*keys: str) -> PoolSnapshot:
    return a_pool(extra_labels=dict.fromkeys(keys))


def tell(*pools: PoolSnapshot, namespace: str = "") -> list[str]:
    return [each.text for each in find_unlabelled(CLUSTER, pools, namespace=namespace)]


@pytest.mark.parametrize(
    "keys", [(labels.MANAGER,), (labels.CLAIM,), (labels.MANAGER, labels.CLAIM), (labels.MANAGER, labels.ATTEMPT)]
)
def test_the_command_gives_back_what_name_and_other_labels_prove(keys: tuple[str, ...]) -> None:
    (text,) = tell(without(*keys))

    _, _, given = text.partition("--node-labels=")
    assert dict(pair.split("=") for pair in given.split(",")) == WHOLE.labels
    assert f"({', '.join(sorted(keys))})" in text
    assert f"{GIVE_BACK}{NAME} --cluster=c --location=us-east5 --project=p --node-labels=" in text


@pytest.mark.parametrize("key", [labels.OWNER_UID, labels.PARENT_NAME])
def test_a_pool_whose_claim_nothing_proves_is_to_be_deleted_by_hand(key: str) -> None:
    (text,) = tell(without(labels.MANAGER, key))

    assert f"{key})" in text or f"{key}," in text
    assert text.endswith(f"{DELETE}{NAME} --cluster=c --location=us-east5 --project=p")


def test_a_pool_without_any_label_is_named(world: World) -> None:
    world.pools.add(CLUSTER, dataclasses.replace(WHOLE, labels={}))

    result = run("status")

    assert result.exit_code == 1
    assert "0 pools with 0 chips, 0 slices waiting; 1 needs a person" in result.stdout
    assert f"node pool {NAME}: has a name of this provisioner, but labels are missing" in result.stdout
    assert DELETE in result.stdout
    (shown,) = read_json("status")["unlabelled"]
    assert (shown["about"], shown["reason"]) == (f"node pool {NAME}", "foreign_labels")


def test_the_board_shows_it_as_something_for_a_person(world: World) -> None:
    world.pools.add(CLUSTER, without(labels.MANAGER))

    (trouble,) = Readings(a_deployment(world)).read()["status"]["troubles"]

    assert trouble["about"] == f"node pool {NAME}"
    assert GIVE_BACK in trouble["text"]


@pytest.mark.parametrize(
    "pool",
    [
        WHOLE,
        a_pool(age_seconds=None),
        a_go_pool(),
        a_foreign_pool(),
        a_foreign_pool("gpu-accelerator-1", machine_type="ct6e-standard-4t", node_count=4, labels={}),
        a_foreign_pool(NAME, labels={}),  # no accelerators
        dataclasses.replace(without(labels.MANAGER), status=PoolStatus.STOPPING),
    ],
)
def test_pools_that_are_whole_or_of_others_are_not_named(pool: PoolSnapshot) -> None:
    assert tell(pool) == []


def test_a_namespace_shows_what_the_labels_that_are_left_give_it() -> None:
    assert len(tell(without(labels.MANAGER), namespace="default")) == 1
    assert tell(without(labels.MANAGER), dataclasses.replace(WHOLE, labels={}), namespace="other") == []
