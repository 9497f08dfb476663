"""What workloads are told that keep the pool of another one, and what its owner is told of them."""

from typing import Any

from shared.core.decide.pool_use import decide_foreign_pods, decide_replacement

from shared.model.decisions import Decision, Reason, Verdict
from shared.model.readings import BoundPod
from tests.builders import NOW, a_foreign_pool, a_pool

REPLACE = Decision(Verdict.DELETE, Reason.POOL_DIFFERS, "node pool x is replaced")


def a_bound(name: str, workload: str = "serving", **overrides: Any) -> BoundPod:
    plain = {"namespace": "default", "kind": "Deployment", "chips": 1, "deleting_since": None, "created_at": NOW}
    return BoundPod(name=name, workload=workload, **{**plain, **overrides})


def test_each_workload_is_told_once_of_all_of_its_pods() -> None:
    pods = [a_bound("s2"), a_bound("s1", created_at=NOW - 60), a_bound("bare", workload="", kind="")]

    told = decide_foreign_pods(a_pool(node_count=64), pods)

    assert [workload for _, workload, _ in told] == [
        ("Deployment", "default", "serving"),
        ("Pod", "default", "bare"),
    ]
    assert [pod.name for pod in told[0][2]] == ["s1", "s2"]
    decision = told[0][0]
    assert (decision.verdict, decision.reason) == (Verdict.KEEP, Reason.POOL_IN_USE)
    assert "with 2 chips or GPUs (pod s1, s2, created at 2027-01-15T07:59:00Z)" in decision.message
    assert "(64 nodes, 256 chips or GPUs)" in decision.message


def test_nobody_on_a_pool_is_told_nothing() -> None:
    assert decide_foreign_pods(a_pool(), []) == []


def test_a_pool_without_owner_labels_is_told_of_too() -> None:
    ((decision, _, _),) = decide_foreign_pods(a_foreign_pool(), [a_bound("s1")])

    assert "another workload, for which the pool was created" in decision.message


def test_a_pool_of_the_earlier_shape_is_replaced_when_nobody_uses_it() -> None:
    assert decide_replacement(REPLACE, [a_bound("m", chips=0)]) == REPLACE


def test_a_change_of_shape_waits_for_those_who_hold_the_old_pool_and_names_them() -> None:
    names = ["serving", "serving", "lab", "batch", "chat"]
    pods = [a_bound(f"p{number}", workload=name) for number, name in enumerate(names)]

    decision = decide_replacement(REPLACE, pods)

    assert (decision.verdict, decision.reason) == (Verdict.WAIT, Reason.POOL_IN_USE)
    assert decision.message == (
        "node pool x is replaced as soon as no accelerator pods run on it: Deployment default/batch, "
        "Deployment default/chat, Deployment default/lab and 1 more"
    )
