"""The emergency stop: a label on the provisioner's namespace, read with each act of its cluster."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.core import labels
from shared.core.errors import Denied, Unavailable
from shared.engine.changes import GUARDS, Verb
from tests.builders import CLUSTER, a_demand_event, a_jobset, a_pool, an_over_event
from tests.component.test_component_elastic import Elastic, a_demand
from tests.component.world import World

OWN = "tpu-provisioner"
ACTS = ("create", "delete", "resize", "remove_nodes")
PERFORM = Path(__file__).resolve().parents[2] / "shared/engine"


def stop(world: World, value: str | None) -> None:
    world.cluster.namespace_labels[OWN] = {} if value is None else {labels.MODE: value}


def create(world: World, value: str | None) -> None:
    stop(world, value)
    world.deliver(a_demand_event())


def replace(world: World, value: str | None) -> None:
    world.use(limit_slices=9)  # so that the pool is looked at before a create is tried
    stop(world, value)
    world.pools.add(CLUSTER, a_pool("ERROR", reserved=True))
    world.deliver(a_demand_event())


def replace_differing(world: World, value: str | None) -> None:
    world.use(replace_differing_pools=True, limit_slices=9)
    stop(world, value)
    world.pools.add(CLUSTER, a_pool(fingerprint="1-other"))
    world.deliver(a_demand_event())


def collect(world: World, value: str | None) -> None:
    stop(world, value)
    world.pools.add(CLUSTER, a_pool())
    world.cluster.add(a_jobset(terminal="Completed"))
    world.cluster.pods.clear()
    world.collect(an_over_event())


def grow(world: World, value: str | None) -> None:
    elastic = Elastic(world, pods=1)
    elastic.want(4)
    world.pools.calls.clear()
    stop(world, value)
    world.deliver(a_demand(elastic.pod))


def act_calls(world: World) -> list[str]:
    return [method for method, _ in world.pools.calls if method in ACTS]


Act = Callable[["World", str | None], None]
EVERY_ACT: dict[Act, tuple[str, tuple[str, str], tuple[str, str]]] = {
    # the call, and what is said instead under no-create and under report-only
    create: ("create", ("refuse", "mode_no_create"), ("refuse", "mode_report_only")),
    replace: ("delete", ("delete", "pool_failed"), ("keep", "mode_report_only")),
    replace_differing: ("delete", ("refuse", "mode_no_create"), ("refuse", "mode_report_only")),
    collect: ("delete", ("delete", "workload_over"), ("keep", "mode_report_only")),
    grow: ("resize", ("refuse", "mode_no_create"), ("refuse", "mode_report_only")),
}


@pytest.fixture(params=EVERY_ACT, ids=lambda each: each.__name__)
def act(request: pytest.FixtureRequest) -> Act:
    found: Act = request.param
    return found


@pytest.mark.parametrize("value", ["no-create", "report-only"])
def test_no_create_adds_nothing_and_still_deletes_and_report_only_changes_nothing(
    world: World, act: Act, value: str
) -> None:
    act(world, value)

    call, no_create, report_only = EVERY_ACT[act]
    answer = no_create if value == "no-create" else report_only
    assert world.says() == answer
    assert act_calls(world) == ([call] if answer[0] == "delete" else [])


@pytest.mark.parametrize("value", ["stop", "No-Create", "", "true"])
def test_an_unknown_value_stops_everything_and_names_the_valid_ones(world: World, act: Act, value: str) -> None:
    act(world, value)

    assert world.says()[1] == "mode_unknown"
    assert act_calls(world) == []
    told = [each for each in world.cluster.notices if "[mode_unknown]" in each.message]
    assert told
    assert all("valid: active, no-create, report-only" in each.message for each in told)


def test_without_the_namespace_nothing_is_done_and_its_name_is_told(world: World) -> None:
    del world.cluster.namespace_labels[OWN]
    world.deliver(a_demand_event())

    assert world.says() == ("refuse", "mode_unknown")
    assert act_calls(world) == []
    assert all("namespace tpu-provisioner" in each.message for each in world.cluster.notices)


@pytest.mark.parametrize(("error", "status"), [(Unavailable("503"), 503), (Denied("forbidden"), 500)])
def test_a_label_that_cannot_be_read_lets_nothing_be_done(world: World, error: Any, status: int) -> None:
    world.cluster.fail_next("get_namespace", error, skip=1)  # the first read is of the workload's namespace

    assert world.deliver(a_demand_event()).status == status
    assert act_calls(world) == []


def test_report_only_sets_no_mark_and_removes_no_node(world: World) -> None:
    elastic = Elastic(world, pods=3)
    elastic.want(1)
    elastic.use("n0")
    stop(world, "report-only")
    for _ in range(4):
        elastic.sweep(after=400)
    assert world.cluster.marks == {}

    stop(world, None)
    elastic.sweep()
    assert set(world.cluster.marks) == {"n1", "n2"}
    stop(world, "report-only")
    for _ in range(4):
        elastic.sweep(after=400)
    assert not any(mark.closed for mark in world.cluster.marks.values())
    assert world.pools.removed == []


@pytest.mark.parametrize("own", [OWN, "accelerators"], ids=["by default", "the namespace is a setting"])
def test_what_is_stopped_is_logged_with_its_cause(world: World, own: str) -> None:
    world.use(own_namespace=own)
    world.cluster.namespace_labels[own] = {labels.MODE: "no-create"}
    world.deliver(a_demand_event())

    assert world.says() == ("refuse", "mode_no_create")
    (stopped,) = [each for each in world.records.found if each.get("logger") == "emergency_stop"]
    assert (stopped["severity"], stopped["reason"]) == ("WARNING", "mode_no_create")
    assert f"{labels.MODE}=no-create of namespace {own}" in stopped["message"]


def test_every_act_of_the_shell_is_in_one_module_and_asks_for_the_stop_first() -> None:
    """An act that a later change adds must not pass the label over."""
    acting = [
        (path.stem, node)
        for path in sorted(PERFORM.glob("*.py"))
        for node in list_functions(ast.parse(path.read_text()).body)
        if any(map(is_act, ast.walk(node)))
    ]

    assert {module for module, _ in acting} == {"changes"}
    assert {node.name for _, node in acting if asks(node)} == {
        *("create_pool", "resize_pool", "delete_pool", "remove_nodes", "mark_nodes")
    }
    assert [node.name for _, node in acting if not asks(node)] == []
    assert [verb for verb in Verb if "_obey_stop" not in [each.__name__ for each in GUARDS[verb]]] == []


def test_the_page_names_the_guards_of_each_change_in_their_order() -> None:
    page = (PERFORM.parents[1] / "docs/tables/the-emergency-stop.md").read_text()
    rows = dict(re.findall(r"^\| ([A-Z_]+) \| (.+) \|$", page, re.MULTILINE))

    assert {verb: re.findall(r"`(\w+)`", row) for verb, row in rows.items()} == {
        verb.name: [guard.__name__.lstrip("_") for guard in guards] for verb, guards in GUARDS.items()
    }


def list_functions(nodes: Iterable[ast.AST]) -> Iterator[ast.FunctionDef]:
    """Yield the functions of a module and the methods of its classes, not the functions in them."""
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield from list_functions(node.body)
        elif isinstance(node, ast.FunctionDef):
            yield node


def asks(node: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "_send" for each in ast.walk(node))


def is_act(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute):
        return False
    of_pools = isinstance(node.value, ast.Attribute) and node.value.attr == "pools" and node.attr in ACTS
    return of_pools or node.attr == "mark_surplus"
