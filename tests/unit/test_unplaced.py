"""Why a pod waits although its pool runs: each case of nodes, in plain sentences with numbers."""

from typing import Any

import pytest
from shared.core.decide.pool_use import decide_unplaced

from shared.model import labels
from shared.model.decisions import Reason, Verdict
from shared.model.workloads import NodeView, Taint, Toleration
from tests.builders import a_pod, a_pool, a_template

SPOT = Taint(labels.SPOT, "true", "NoSchedule")
UNTOLERATED = "nodes have the taint cloud.google.com/gke-spot=true:NoSchedule, which the pod does not tolerate"
SAYS = "The scheduler says: it has not said why"


def a_node(name: str = "n0", **overrides: Any) -> NodeView:
    plain = {"ready": True, "units": 4, "cpu_millis": 179_500, "memory_bytes": 700 * 2**30}
    return NodeView(name=name, **{**plain, **overrides})


def nodes(count: int, **overrides: Any) -> list[NodeView]:
    return [a_node(f"n{number}", **overrides) for number in range(count)]


def tolerating(**fields: str) -> dict[str, Any]:
    return {"tolerations": (Toleration(**fields),)}


@pytest.mark.parametrize(
    ("asked", "found", "causes"),
    [
        pytest.param({}, nodes(4), [], id="all is well"),
        pytest.param(
            {}, nodes(3), ["3 of 4 nodes exist; GKE adds those that are missing"], id="a node is missing"
        ),
        pytest.param({}, [], ["0 of 4 nodes exist; GKE adds those that are missing"], id="no node is left"),
        pytest.param(
            {"selectors": {labels.SPOT: "true"}},
            nodes(1),
            ["1 of 4 nodes exist; GKE takes spot nodes away, and adds them again when there is capacity"],
            id="spot nodes are gone",
        ),
        pytest.param(
            {},
            [a_node(), *[a_node(f"n{each}", ready=False) for each in range(1, 6)]],
            ["1 of 6 nodes are Ready (not n1, n2, n3 and 2 more); GKE repairs the others"],
            id="nodes are not ready",
        ),
        pytest.param(
            {},
            [
                *nodes(3),
                a_node("n3", cordoned=True, taints=(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),)),
            ],
            ["1 of 4 nodes are cordoned (n3); kubectl uncordon admits pods again"],
            id="a node is cordoned",
        ),
        pytest.param(
            {"cpu_millis": 200_500},
            nodes(4),
            ["it requests 200.5 CPU, and a node offers pods 179.5"],
            id="more CPU than a host has",
        ),
        pytest.param(
            {"memory_bytes": 800 * 2**30},
            nodes(4),
            ["it requests 800 GiB of memory, and a node offers pods 700"],
            id="more memory than a host has",
        ),
        pytest.param(
            {"chips": 8}, nodes(4), ["it requests 8 accelerators, and a node offers pods 4"], id="more chips"
        ),
        pytest.param({"cpu_millis": 179_500}, nodes(4), [], id="all that a host has"),
        pytest.param(
            {"cpu_millis": 200_500}, [*nodes(3), a_node("n3", cpu_millis=None)], [], id="a host is silent"
        ),
        pytest.param({}, nodes(4, taints=(SPOT,)), ["4 of 4 " + UNTOLERATED], id="a taint without toleration"),
        pytest.param(
            {},
            nodes(4, taints=(Taint("a", "", "PreferNoSchedule"), Taint(labels.SURPLUS, "1", "NoSchedule"))),
            [],
            id="taints that keep nothing off, and ours",
        ),
        pytest.param(
            {"cpu_millis": 200_000},
            nodes(2, taints=(SPOT,)),
            [
                "it requests 200 CPU, and a node offers pods 179.5",
                "2 of 2 " + UNTOLERATED,
                "2 of 4 nodes exist; GKE takes spot nodes away, and adds them again when there is capacity",
            ],
            id="several causes at once",
        ),
    ],
)
def test_the_nodes_tell_why_a_pod_waits(asked: dict[str, Any], found: list[NodeView], causes: list[str]) -> None:
    wanted = 6 if len(found) == 6 else 4

    decision = decide_unplaced(a_pod(template=a_template(**asked)), a_pool(), found, wanted=wanted)

    assert (decision.verdict, decision.reason) == (Verdict.WAIT, Reason.POD_UNPLACED)
    told = f"node pool {a_pool().name} runs, but this pod cannot run on it: {'; '.join(causes)}. {SAYS}"
    assert decision.message == told if causes else "finds no place for this pod" in decision.message


@pytest.mark.parametrize(
    ("fields", "covered"),
    [
        ({"key": labels.SPOT, "operator": "Equal", "value": "true", "effect": "NoSchedule"}, True),
        ({"key": labels.SPOT, "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": labels.SPOT, "value": "true"}, True),
        ({"key": labels.SPOT, "value": "false"}, False),
        ({"key": labels.SPOT, "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "another", "operator": "Exists"}, False),
        ({"value": "true"}, False),
    ],
)
def test_a_toleration_covers_a_taint_by_kubernetes_rules(fields: dict[str, str], covered: bool) -> None:
    pod = a_pod(template=a_template(**tolerating(**fields)))

    told = decide_unplaced(pod, a_pool(), nodes(4, taints=(SPOT,)), wanted=4).message

    assert Toleration(**fields).covers(SPOT) is covered
    assert ("does not tolerate" in told) is not covered


def test_what_the_nodes_say_is_not_said_again_by_the_advice() -> None:
    taint = "node(s) had untolerated taint {cloud.google.com/gke-spot: true}"
    words = f"0/3 nodes are available: 1 Insufficient cpu, 2 {taint}."
    pod = a_pod(template=a_template(cpu_millis=200_000), scheduler_message=words)

    told = decide_unplaced(pod, a_pool(), nodes(4, taints=(SPOT,)), wanted=4).message

    assert told.endswith(f"Insufficient cpu; {taint}")
    advice = decide_unplaced(pod, a_pool(), None).message
    assert advice.endswith("more CPU than is free on a node of this machine type")


def test_an_elastic_pool_misses_no_nodes_by_its_first_count() -> None:
    assert "exist" not in decide_unplaced(a_pod(), a_pool(), nodes(1)).message
