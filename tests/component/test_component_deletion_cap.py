"""Deletions that never succeed do not keep others from being made."""

from collections.abc import Collection

from shared.core.errors import Unavailable
from shared.core.identity.names import build_pool_name
from tests.builders import CLUSTER, a_claim, a_pool
from tests.component.world import World, orphan
from tests.unit.test_kind_job import ONE_HOST, a_job, held


def test_leaders_get_their_pools_replaced_while_orphans_use_up_the_cap(world: World) -> None:
    world.use(sweep_deletions_max=3, replace_differing_pools=True)
    differing = a_pool(fingerprint="1-other")
    world.pools.add(CLUSTER, *(orphan(f"gone-{number}", age_seconds=900) for number in range(9)), differing)

    _, counts = world.sweep()

    asked = [name for verb, name in world.pools.calls if verb == "delete"]
    assert len(asked) == counts["delete"] == 3
    assert differing.name in asked
    world.records.expect_in_order({"severity": "CRITICAL", "reason": "sweep_over_cap"})


def test_the_pools_of_a_completed_job_of_single_hosts_all_go_in_one_sweep(world: World) -> None:
    """No index is left, so each pool's slice is gone; but the Job itself says that it is over."""
    world.use(sweep_deletions_max=1)
    world.cluster.pods.clear()
    job = a_job(template=ONE_HOST, status={"completedIndexes": "0-3"} | held("Complete"))
    world.cluster.add(job)
    claims = [
        a_claim(kind="Job", name=job.name, owner_uid=job.uid, slice_key=f"default/{job.name}-{index}")
        for index in range(4)
    ]
    world.pools.add(CLUSTER, *(a_pool(claim=each) for each in claims))
    terminating = build_pool_name(claims[3])
    world.cluster.bind(terminating, kind="Job")

    _, counts = world.sweep()

    found = {each["pool"]: each for each in world.records.found if "pool" in each}
    kept = found.pop(terminating)
    assert {each["reason"] for each in found.values()} == {"workload_over"}
    assert counts == {"delete": 3, "wait": 1, "errors": 0}
    assert (kept["reason"], kept["message"]) == (
        "pods_still_bound",
        f"1 pods are still terminating on {terminating}",
    )
    notices = {(each.kind, each.reason) for each in world.cluster.notices}
    assert ("Job", "NodePoolDeletionStarted") in notices


def sweep_for_an_hour(world: World, held: Collection[str], *, cap: int) -> list[str]:
    """Let GKE never answer about some deletions; return the names that it was asked to delete."""
    asked, delete = list[str](), world.pools.delete

    def time_out(cluster: str, name: str) -> None:
        asked.append(name)
        if name in held:
            raise Unavailable("no answer")
        delete(cluster, name)

    world.pools.delete = time_out  # type: ignore[method-assign]
    for _ in range(60):
        before = len(asked)
        world.sweep()
        world.clock.advance(60)
        assert len(asked) - before <= cap
    return asked


def test_deletions_that_always_time_out_do_not_use_up_the_cap_of_every_sweep(world: World) -> None:
    world.use(sweep_deletions_max=2)
    world.cluster.pods.clear()
    old = [orphan(f"gone-{number}", age_seconds=900) for number in range(4)]
    young = [orphan("gone-8"), orphan("gone-9")]
    world.pools.add(CLUSTER, *old, *young)

    asked = sweep_for_an_hour(world, {pool.name for pool in old}, cap=2)

    assert {pool.name for pool in young} <= set(asked)
