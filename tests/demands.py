"""What the rules make of the plain case's pods: the demand, or why there is none."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Rejected
from shared.model.names import Claim, Try
from shared.model.needs import Need
from shared.model.workloads import PodView, WorkloadView
from shared.needs.nodepool import build_body
from shared.needs.wanted import Wanted, list_wanted
from shared.needs.ways import Demand
from shared.settings import Settings
from tests.builders import CLUSTER, a_claim, a_jobset, a_pod, settings


def want(workload: WorkloadView, *pods: PodView, use: Settings | None = None) -> Wanted:
    """What a workload with these live pods needs; each node has the name of its pool."""
    return list_wanted(CLUSTER, workload, pods, {}, use or settings())


def decide(
    pod: PodView, workload: WorkloadView, use: Settings | None = None, *, cluster: str = CLUSTER
) -> Demand | Decision:
    """The demand that a live pod belongs to, or what its owner is told."""
    wanted = list_wanted(cluster, workload, (pod,), {}, use or settings())
    if wanted.refusals:
        return wanted.refusals[0][1]
    needs = [need for need in wanted.needs if need.key == wanted.pods[0].need]
    if not needs:
        return Decision(Verdict.NOTHING, Reason.IDENTITY_MISMATCH, "its spec has no accelerators")
    return answer_need(wanted, needs[0])


def answer_need(wanted: Wanted, need: Need) -> Demand | Decision:
    """The demand of a need, or why it never gets a pool."""
    if need.never is not None:
        return Decision(Verdict.REFUSE, need.never.reason, need.never.message)
    return wanted.demands[need.key]


def plan_demands(
    workload: WorkloadView, use: Settings | None = None, pods: Sequence[PodView] = ()
) -> list[Demand | Decision]:
    """The demand of each need of a workload, or why it never gets a pool from us."""
    wanted = want(workload, *pods, use=use)
    left = [other for _, other in wanted.left]
    return [*(answer_need(wanted, need) for need in wanted.needs), *left]


def a_demand(
    *, pod: PodView | None = None, jobset: WorkloadView | None = None, use: Settings | None = None, **shape: Any
) -> Demand:
    """The demand of a leader pod, read by the real rule; `shape` goes to `a_template`."""
    pod = pod or a_pod(shape=shape)
    jobset = jobset or a_jobset(namespace=pod.namespace, template=pod.template)
    return expect_demand(decide(pod, jobset, use))


def expect_demand(found: object) -> Demand:
    """Return what a rule found, which must be a demand."""
    assert isinstance(found, Demand), found
    return found


def refuses(reason: Reason, match: str | None = None) -> "pytest.RaisesExc[Rejected]":
    """Return a context that accepts a refusal with this reason only, and with these words."""
    return pytest.RaisesExc(Rejected, match=match, check=lambda error: error.reason == reason)


def expect_words(found: object, reason: Reason, *words: str, verdict: Verdict = Verdict.REFUSE) -> str:
    """Return the message of a decision, which has a reason and these words."""
    assert isinstance(found, Decision), found
    assert (found.verdict, found.reason) == (verdict, reason), found.message
    assert [word for word in words if word not in found.message] == [], found.message
    return found.message


def a_pool_body(
    demand: Demand,
    *,
    use: Settings | None = None,
    claim: Claim | None = None,
    tried: Try | None = None,
    candidate: int = 0,
    empty: bool = False,
    created_at: int = 1,
    **more: Any,
) -> dict[str, Any]:
    """The request for a pool of a demand; an elastic one has at most the nodes of the spec."""
    if use is not None:
        demand = structs.replace(demand, settings=use)
    plain = {"maximum": demand.shape.node_count, "cluster_uid": "", "on_channel": True}
    return build_body(
        structs.replace(demand, index=candidate, empty=empty),
        claim or a_claim(),
        tried or Try(),
        created_at=created_at,
        **{**plain, **more},
    )
