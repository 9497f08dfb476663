"""The timeline model: from observations to steps, decisions and ends, whatever their order."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from demo.loop.observations import (
    Called,
    Decided,
    JobSetSeen,
    MessagePublished,
    NodeSeen,
    Observation,
    PodSeen,
    PoolsListed,
    SliceSpec,
)
from demo.loop.progress import (
    NO_DEMAND,
    SUSPENDED,
    Patience,
    Refuser,
    describe_missing,
    find_stuck,
    is_finished,
    list_quiet,
)
from demo.loop.states import SliceTimeline
from demo.loop.steps import STEPS, Step
from demo.loop.timeline import Timeline

NAMESPACE, JOBSET, JOB, POOL = "default", "train", "train-slice-0", "train-slice-0-abc-0"
PATIENCE = Patience(refused_seconds=3, silent_seconds=10)


def jobset(at: float, *, terminal: str = "", gone: bool = False, suspended: bool = False) -> JobSetSeen:
    slices = (SliceSpec(job=JOB, pods=2),)
    return JobSetSeen(
        at=at, namespace=NAMESPACE, name=JOBSET, slices=slices, terminal=terminal, gone=gone, suspended=suspended
    )


def pod(at: float, index: int = 0, *, node: str = "", phase: str = "Pending", stuck: str = "") -> PodSeen:
    return PodSeen(
        at=at,
        namespace=NAMESPACE,
        name=f"{JOB}-{index}-x",
        uid=f"uid-{index}",
        job=JOB,
        index=str(index),
        phase=phase,
        node=node,
        unschedulable=stuck,
    )


def decided(at: float, decision: str, reason: str, *, function: str = "provision", pool: str = "") -> Decided:
    return Decided(
        at=at,
        function=function,
        decision=decision,
        reason=reason,
        message="because",
        namespace=NAMESPACE,
        workload=JOBSET,
        job=JOB,
        pool=pool,
        node_count=2,
        machine_type="ct6e-standard-4t",
    )


def called(at: float, method: str, code: str = "OK", pool: str = POOL) -> Called:
    return Called(at=at, method=method, pool=pool, code=code)


def node(at: float, index: int, *, gone: bool = False) -> NodeSeen:
    return NodeSeen(at=at, name=f"node-{index}", pool=POOL, ready=True, gone=gone)


def published(at: float) -> MessagePublished:
    return MessagePublished(at=at, subject=f"namespaces/default/jobsets/{JOBSET}", observed="unschedulable")


def whole_life() -> list[Observation]:
    return [
        jobset(1),
        pod(2, stuck="no nodes available"),
        published(3),
        decided(4, "create", "pool_absent", pool=POOL),
        called(5, "CreateNodePool"),
        PoolsListed(at=5.5, pools={POOL: "PROVISIONING"}),
        node(6, 0),
        node(7, 1),
        pod(8, node="node-0"),
        pod(9, 1, node="node-1"),
        pod(10, node="node-0", phase="Running"),
        pod(11, 1, node="node-1", phase="Running"),
        pod(12, node="node-0", phase="Succeeded"),
        jobset(13, terminal="Completed"),
        decided(14, "delete", "workload_over", function="collect", pool=POOL),
        called(15, "GetNodePool"),
        called(16, "DeleteNodePool"),
        node(17, 0, gone=True),
        node(17, 1, gone=True),
        PoolsListed(at=18, pools={}),
    ]


def observe(observations: list[Observation]) -> Timeline:
    timeline = Timeline([(NAMESPACE, JOBSET)], started_at=0.0)
    for each in observations:
        timeline.observe(each)
    return timeline


def only_slice(timeline: Timeline) -> SliceTimeline:
    (one,) = timeline.slices.values()
    return one


def test_a_whole_life_reaches_every_step_in_order() -> None:
    timeline = observe(whole_life())
    one = only_slice(timeline)
    assert list(one.steps) == list(STEPS)
    assert all(earlier <= later for earlier, later in pairwise(one.steps[step] for step in STEPS))
    assert is_finished(timeline)
    assert timeline.nodes_left == []


def test_calls_are_counted_for_the_pool_of_the_slice_only() -> None:
    timeline = observe([*whole_life(), called(19, "ListNodePools", pool=""), called(20, "GetNodePool", pool="x")])
    assert timeline.calls_of(only_slice(timeline)) == {"CreateNodePool": 1, "GetNodePool": 1, "DeleteNodePool": 1}
    assert timeline.shared_calls == {"ListNodePools": 1}


def test_calls_that_gke_refused_are_counted_too() -> None:
    refused = called(4, "CreateNodePool", code="FAILED_PRECONDITION")
    timeline = observe([*whole_life(), refused, called(20, "GetNodePool", pool="x", code="NOT_FOUND")])
    assert timeline.calls_of(only_slice(timeline))["CreateNodePool"] == 2
    assert timeline.refused_calls_of(only_slice(timeline)) == 1


def test_a_call_seen_before_its_decision_counts_at_its_own_time() -> None:
    life = whole_life()
    life[3], life[4] = life[4], life[3]
    assert only_slice(observe(life)).steps[Step.ACCEPTED] == 5


@pytest.mark.parametrize("decision", ["keep", "wait"])
def test_a_create_whose_function_died_before_it_could_tell_is_known_by_the_next_delivery(decision: str) -> None:
    life = whole_life()
    life[3], life[4] = called(4, "CreateNodePool"), decided(5, decision, "pool_serves", pool=POOL)
    one = only_slice(observe(life))
    assert one.pools == [POOL]
    assert one.steps[Step.ACCEPTED] == 4
    assert one.creation is not None
    assert one.creation.machine_type == "ct6e-standard-4t"


def test_a_message_seen_before_its_pod_and_jobset_counts() -> None:
    one = only_slice(observe([published(1), jobset(2), pod(0.5, stuck="no nodes available")]))
    assert one.steps == {Step.UNSCHEDULABLE: 0.5, Step.PUBLISHED: 1}


@pytest.mark.parametrize(("moments", "told"), [((2.5, 3.5), 2.5), ((3.5, 2.5), 2.5), ((1.5, 3.5), 3.5)])
def test_the_first_message_that_covers_a_leader_counts(moments: tuple[float, ...], told: float) -> None:
    """Also one of just before it, because the function reads the pods after that."""
    life: list[Observation] = [jobset(1), *map(published, moments), pod(3, stuck="no nodes available")]
    assert only_slice(observe(life)).steps[Step.PUBLISHED] == told


def test_a_slice_whose_leader_was_unschedulable_long_after_the_last_message_has_none() -> None:
    life: list[Observation] = [jobset(1), published(2), pod(4, stuck="no nodes available")]
    assert Step.PUBLISHED not in only_slice(observe(life)).steps


def test_a_duplicate_changes_nothing_but_the_counts() -> None:
    twice = [each for each in whole_life() for _ in range(2)]
    assert only_slice(observe(twice)).steps == only_slice(observe(whole_life())).steps


def test_logs_may_lag_behind_the_watches_at_random() -> None:
    for seed in range(50):
        chance = random.Random(seed)
        life = whole_life()
        # The listing that shows the pool comes before the one that does not, always; logs come
        # whenever they come.
        logs = [each for each in life if isinstance(each, Decided | MessagePublished | Called)]
        others = [each for each in life if each not in logs]
        mixed: list[Observation] = []
        while logs or others:
            source = logs if logs and (not others or chance.random() < 0.5) else others
            mixed.append(source.pop(0))
        one = only_slice(observe(mixed))
        assert one.steps == only_slice(observe(whole_life())).steps


def test_observations_of_other_workloads_are_ignored() -> None:
    timeline = Timeline([(NAMESPACE, "another")], started_at=0.0)
    lines = [line for each in whole_life() for line in timeline.observe(each)]
    assert lines == []
    assert timeline.slices == {}


def test_a_failed_create_is_not_accepted() -> None:
    life: list[Observation] = [
        jobset(1),
        decided(2, "create", "pool_absent", pool=POOL),
        called(3, "CreateNodePool", "RESOURCE_EXHAUSTED"),
    ]
    assert Step.ACCEPTED not in only_slice(observe(life)).steps


def test_a_second_attempt_moves_the_end_to_the_last_pool() -> None:
    second = "train-slice-0-abc-1"
    life: list[Observation] = [
        jobset(1),
        decided(2, "create", "pool_absent", pool=POOL),
        called(3, "CreateNodePool"),
        called(4, "DeleteNodePool"),
        PoolsListed(at=4.5, pools={POOL: "STOPPING"}),
        decided(5, "create", "pool_absent", pool=second),
        PoolsListed(at=5.5, pools={second: "RUNNING"}),
        called(6, "DeleteNodePool", pool=second),
        PoolsListed(at=7, pools={}),
    ]
    one = only_slice(observe(life))
    assert one.pools == [POOL, second]
    assert one.steps[Step.DELETE_ACCEPTED] == 6
    assert one.steps[Step.DELETED] == 7


def test_a_slice_on_the_pool_of_another_is_told_apart() -> None:
    other = "train-worker-0"
    seen = JobSetSeen(
        at=1, namespace=NAMESPACE, name=JOBSET, slices=(SliceSpec(job=JOB, pods=1), SliceSpec(job=other, pods=1))
    )
    worker = PodSeen(
        at=9, namespace=NAMESPACE, name="w", uid="w", job=other, index="0", phase="Running", node="node-0"
    )
    timeline = observe([seen, decided(2, "create", "pool_absent", pool=POOL), node(3, 0), worker])
    assert timeline.slices[NAMESPACE, other].pool == POOL
    assert timeline.slices[NAMESPACE, other].shares_pool


def test_a_refused_slice_that_runs_elsewhere_is_not_stuck() -> None:
    timeline = observe(
        [jobset(1), decided(2, "refuse", "shape_unsupported"), pod(3, node="cpu-0", phase="Running")]
    )
    assert find_stuck(timeline, 100.0, PATIENCE) == []


def test_a_refused_slice_is_stuck_once_it_was_quiet_for_long_enough() -> None:
    timeline = observe(
        [jobset(1), pod(2, stuck="no"), decided(4, "refuse", "shape_unsupported"), PoolsListed(at=5)]
    )
    assert find_stuck(timeline, 5.0, PATIENCE) == []
    ((workload, (refusal,)),) = find_stuck(timeline, 8.0, PATIENCE)
    assert (workload.name, refusal.slice, refusal.reason) == (JOBSET, JOB, "shape_unsupported")


def test_a_refusal_that_was_followed_by_a_create_is_none() -> None:
    timeline = observe(
        [
            jobset(1),
            pod(2, stuck="no"),
            decided(4, "refuse", "limit_reached"),
            decided(5, "create", "pool_absent", pool=POOL),
        ]
    )
    assert find_stuck(timeline, 100.0, PATIENCE) == []


def test_a_jobset_that_waits_for_its_capacity_is_not_stuck() -> None:
    timeline = observe([jobset(1), replace(jobset(2, suspended=True), waits_for_capacity=True)])
    assert find_stuck(timeline, 1000, Patience.at_speed(30)) == []


def test_a_suspended_workload_is_stuck_and_its_own_words_are_told() -> None:
    message = replace(jobset(2, suspended=True), message="jobset is suspended")
    timeline = observe([jobset(1, suspended=True), message])
    ((_, (refusal,)),) = find_stuck(timeline, 100.0, PATIENCE)
    assert (refusal.reason, refusal.by) == (SUSPENDED, Refuser.OWNER)
    assert "(jobset is suspended)" in refusal.message


def test_workloads_are_quiet_once_nothing_has_happened_to_any_of_them_for_long() -> None:
    timeline = Timeline([(NAMESPACE, JOBSET), (NAMESPACE, "other")], started_at=0.0)
    timeline.observe(jobset(5))
    assert list_quiet(timeline, 9.0, PATIENCE) == []
    assert [each.name for each in list_quiet(timeline, 10.0, PATIENCE)] == [JOBSET, "other"]
    timeline.observe(replace(jobset(12, gone=True), name="other"))
    assert [each.name for each in list_quiet(timeline, 20.0, PATIENCE)] == [JOBSET]


def test_no_workload_is_quiet_while_a_pool_is_made_for_one() -> None:
    assert list_quiet(observe(whole_life()[:6]), 1000.0, PATIENCE) == []


def test_a_leader_that_nobody_asked_a_pool_for_is_stuck_with_the_schedulers_words() -> None:
    timeline = observe([jobset(1), pod(2, stuck="0/1 nodes are available")])
    assert find_stuck(timeline, 6.0, PATIENCE) == []
    ((_, (refusal,)),) = find_stuck(timeline, 20.0, PATIENCE)
    assert refusal.reason == NO_DEMAND
    assert "0/1 nodes are available" in refusal.message


def test_a_slow_create_is_not_stuck_and_says_what_it_waits_for() -> None:
    timeline = observe(whole_life()[:6])
    assert find_stuck(timeline, 1000.0, PATIENCE) == []
    (slice_line, pool_line) = describe_missing(timeline, 1000.0)
    assert "all nodes are ready" in slice_line
    assert POOL in pool_line


def test_a_run_is_not_finished_before_the_pools_were_listed() -> None:
    assert not is_finished(observe([jobset(1, terminal="Completed")]))
    assert is_finished(observe([jobset(1, gone=True), PoolsListed(at=2)]))


def test_the_feed_says_each_step_once() -> None:
    timeline = Timeline([(NAMESPACE, JOBSET)], started_at=0.0)
    lines = [line.text for each in whole_life() * 2 for line in timeline.observe(each)]
    assert sum("all nodes are ready" in line for line in lines) == 1
    assert sum("the JobSet is Completed" in line for line in lines) == 1
