"""RayClusters under KubeRay, from the first pod of a replica to its last pool: the whole loop."""

from tests.kinds.controllers import with_controllers
from tests.kinds.rays import Life, a_group, names
from tests.lives.cloud import Cloud, wait_for

KUBERAY = "kuberay-1.6"
pytestmark = with_controllers(KUBERAY)


def test_each_replica_has_a_pool_and_only_the_one_that_leaves_gives_it_back(cloud: Cloud) -> None:
    life = Life(cloud, "elastic")
    life.submit()
    first = life.pools_by_replica(life.wait_running(2))
    assert set(first) == {"0"}
    life.wait_pools(*first.values())

    life.scale(2)
    both = life.pools_by_replica(life.wait_running(4))
    assert set(both) == {"0", "1"}
    assert both["0"] == first["0"] != both["1"]

    life.scale(1)
    left = life.pools_by_replica(life.wait_running(2))
    life.wait_pools(*left.values())
    assert set(left.items()) < set(both.items()), "the replica that stays keeps its pool"

    life.end(pools=2)


def test_a_replica_that_lost_a_host_comes_again_under_another_name_on_the_same_pool(cloud: Cloud) -> None:
    life = Life(cloud, "replaced")
    life.submit()
    before = life.wait_running(2)
    pools = life.pools_by_replica(before)
    life.lose_host("0", before)
    assert life.pools_by_replica(life.wait_running(2)) == pools
    assert life.accepted("CreateNodePool") == 1
    life.end()


def test_a_replica_on_another_one_s_pool_keeps_it_and_the_empty_one_goes(cloud: Cloud) -> None:
    life = Life(cloud, "swapped")
    life.submit(a_group("swapped", replicas=2))
    life.wait_running(4)
    life.scale(3)
    pods = life.wait_running(6)
    pools = life.pools_by_replica(pods)
    # Only pool 2 fits the next replica 0, and pool 2 is freed: elsewhere this occurs by chance.
    life.cordon(pools["0"])
    life.lose_host("0", pods)
    wait_for("replica 0 waits", lambda: [pod for pod in life.replica("0") if not pod["spec"].get("nodeName")])
    life.scale(2, without=[life.replica("2")[0]["metadata"]["name"]])
    wait_for("replica 2 left", lambda: not life.replica("2"))
    after = life.pools_by_replica(life.wait_running(4))
    assert after == {"0": pools["2"], "1": pools["1"]}
    life.wait_pools(*after.values())

    life.scale(3)
    again = life.pools_by_replica(life.wait_running(6))
    assert set(after.items()) < set(again.items())
    life.wait_pools(*again.values())
    life.end(pools=4)


def test_a_recreated_cluster_keeps_its_pool_and_another_shape_replaces_it(cloud: Cloud) -> None:
    life = Life(cloud, "remade")
    life.submit(upgradeStrategy={"type": "Recreate"})
    before = life.wait_running(2)
    pools = life.pools()
    cloud.patch(life.path, {"spec": {"rayVersion": "2.53.0"}})
    wait_for("all are made again", lambda: not names(life.workers()) & names(before))
    life.wait_running(2)
    assert (life.pools(), life.accepted("CreateNodePool")) == (pools, 1)

    # The pool of the old shape has no use, so it goes without the setting replace_differing_pools.
    cloud.patch(life.path, {"spec": {"workerGroupSpecs": [a_group("remade", "4x4")]}})
    (after,) = life.pools_by_replica(life.wait_running(4)).values()
    assert after not in pools
    life.wait_pools(after)
    life.end(pools=2)
