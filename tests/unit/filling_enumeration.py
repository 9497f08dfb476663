"""Every situation of an autoscaled pool without nodes, and what must hold in each."""

from dataclasses import replace
from typing import Any

from shared.core.decide.filling import Filling, decide_empty

from shared.model.decisions import Decision, Reason, Verdict
from shared.model.readings import FillError, Machines
from shared.needs.capacity_texts import read_policies
from tests.builders import NOW, a_demand, a_pod, a_pool, settings
from tests.unit.decision_table import DecisionTable, Rule, Situation, list_broken

WAIT = 900
AGES = {"under the wait": WAIT - 1, "the wait": WAIT, "the longest wait": 3600}
GROUP = "gke-alpha-pool-1a2b3c4d-grp"
ASKED = (
    "pod triggered scale-up: [{{https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroups/{} 0->4}}]"
)
MACHINES: dict[str, Machines | None] = {
    "not looked": None,
    "not read": None,
    "none": Machines(),
    "refused": Machines(errors=(FillError("ZONE_RESOURCE_POOL_EXHAUSTED: words", NOW - 100),)),
    "refused before the wait": Machines(errors=(FillError("ZONE_RESOURCE_POOL_EXHAUSTED: words", NOW - 5000),)),
    "refused at no time": Machines(errors=(FillError("QUOTA_EXCEEDED: words"),)),
    "on their way": Machines(coming=4, errors=(FillError("QUOTA_EXCEEDED: words", NOW - 100),)),
    "made": Machines(made=1, errors=(FillError("QUOTA_EXCEEDED: words", NOW - 100),)),
}
TOLD = {
    "nothing": None,
    "of this zone": FillError("Node scale up in zones us-east5-b failed: GCE out of resources", NOW - 100),
    "of another zone": FillError("Node scale up in zones us-east5-a failed: GCE out of resources", NOW - 100),
    "before the pool": FillError("Node scale up failed: GCE out of resources", NOW - 5000),
    "just asked": FillError(ASKED.format(GROUP), NOW - 100, tries=True),
    "asked for the wait": FillError(ASKED.format(GROUP), NOW - WAIT, tries=True),
    "asked another pool": FillError(ASKED.format("gke-alpha-other-1a2b3c4d-grp"), NOW - 5000, tries=True),
    "fits nowhere": FillError("pod didn't trigger scale-up: 1 Insufficient cpu", NOW - 100, tries=True),
}
WAYS = {
    "one": "[{}]",
    "two": "[{}, {location: {zones: [us-east5-a]}}]",
    "two, flex-start": "[{flexStart: {enabled: true}}, {location: {zones: [us-east5-a]}}]",
}
FLEX_WAIT = 86_400


def _ask(rule: Rule, row: Situation) -> Any:
    policies = read_policies(f"[{{priorities: {WAYS[row['ways']]}}}]")
    use = settings(capacity_policies=policies, flex_start_wait_seconds=FLEX_WAIT)
    age, told = AGES[row["age"]], TOLD[row["told"]]
    pool = a_pool(age_seconds=age, autoscaled=True, node_count=4)
    pool = replace(pool, group_urls=(f"projects/p/zones/us-east5-b/instanceGroupManagers/{GROUP}",))
    pod = a_pod(unschedulable_since=NOW - age)
    looked = row["machines"] != "not looked"
    filling = Filling(machines=MACHINES[row["machines"]], told=[told] if told and looked else [], looked=looked)
    return rule(a_demand(use=use), pod, pool, filling, now=NOW, settings=use)


def judge_empty(row: Situation, decision: Decision) -> list[str]:
    """Return which promises a decision breaks."""
    coming = row["machines"] == "on their way" and row["age"] == "under the wait"
    silent = row["told"] in ("nothing", "before the pool", "asked another pool") and row["machines"] == "none"
    left, looked = decision.verdict == Verdict.DELETE, row["machines"] != "not looked"
    just_asked = row["told"] == "just asked" and row["machines"] == "none"
    return list_broken(
        {
            "an empty pool is waited for or left": decision.verdict in (Verdict.WAIT, Verdict.DELETE),
            "an empty pool serves nothing": decision.reason != Reason.POOL_SERVES,
            "there must be another way": not left or row["ways"] != "one",
            "a machine on its way keeps the pool": not left or not (row["machines"] == "made" or coming),
            "a pool that the autoscaler has not tried keeps its place": (
                not left or not silent or row["age"] == "the longest wait"
            ),
            "the wait counts from the first try": not left or not just_asked,
            "a machine may be there, so no pool is left without a look": not left or looked,
        }
    )


FILLING = DecisionTable(
    axes={"machines": tuple(MACHINES), "told": tuple(TOLD), "age": tuple(AGES), "ways": tuple(WAYS)},
    rule=decide_empty,
    ask=_ask,
    judge=judge_empty,
    more_than=300,
)
