"""RayClusters under KubeRay 1.5, whose pods do not name their replica: the whole loop."""

from tests.kinds.controllers import with_controllers
from tests.kinds.rays import Json, Life, a_group
from tests.lives.cloud import Cloud, wait_for

KUBERAY = "kuberay-1.5"
pytestmark = with_controllers(KUBERAY)


def test_a_group_that_can_only_have_one_replica_needs_no_label(cloud: Cloud) -> None:
    life = Life(cloud, "single")
    life.submit(a_group("single", maxReplicas=1, apart=False))
    (pool,) = {life.pool_of(pod) for pod in life.wait_running(2)}
    life.wait_pools(pool)
    life.end(pools=1)


def test_on_single_hosts_each_worker_has_a_pool_and_the_one_that_leaves_gives_it_back(cloud: Cloud) -> None:
    life = Life(cloud, "few")
    life.submit(a_group("few", "2x2", apart=False, replicas=3))
    pods = life.wait_running(3)
    pools = {pod["metadata"]["name"]: life.pool_of(pod) for pod in pods}
    assert set(pools.values()) == set(life.pools())

    life.scale(2, without=[pods[0]["metadata"]["name"]])
    left = _names(life.wait_running(2))
    life.wait_pools(*(pools[name] for name in left))
    life.end(pools=3)


def test_hosts_that_cannot_be_told_or_kept_apart_are_refused_with_what_would_help(cloud: Cloud) -> None:
    untold, mixing = Life(cloud, "untold"), Life(cloud, "mixing")
    untold.submit(a_group("untold", replicas=2))
    mixing.submit(*(a_group("mixing", groupName=name, maxReplicas=1, apart=False) for name in ("a", "b")))
    (answer,) = set(wait_for("a refusal of what cannot be told", untold.refusals))
    assert "[slice_unknown]" in answer
    assert "install GKE's Ray TPU webhook" in answer
    assert "or set maxReplicas to 1" in answer
    answer = wait_for("a refusal of what could mix", mixing.refusals)[0]
    assert "[slices_may_mix]" in answer
    assert "install GKE's Ray TPU webhook" in answer
    assert untold.calls() == mixing.calls() == []
    untold.delete()
    mixing.delete()


def _names(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}
