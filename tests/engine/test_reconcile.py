"""One workload on its way: how short it is, what it calls, and what is said."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from msgspec import structs

from shared.engine.budget import Key
from shared.engine.look import Look
from shared.engine.reconcile import explain_refusal
from shared.engine.tell import WORDS, explain_answer, note
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Busy
from shared.model.pools import PoolShape, PoolStatus
from shared.plan.scene import Act, Answer, Pool, Scene, Verb, Word
from tests.builders import CLUSTER, JOBSET_UID, NOW, a_pod
from tests.engine.fake_ports import CHECK
from tests.engine.world import World

SHARED = str(Path(__file__).parents[2] / "shared")
EDGES = f"{SHARED}/edges"
MODULES, FUNCTIONS = 32, 241
DELETE_MODULES, DELETE_FUNCTIONS = 17, 106


def test_every_answer_of_the_plan_has_words() -> None:
    plan = "".join(path.read_text() for path in Path(SHARED, "plan").glob("*.py"))

    assert {Reason[name] for name in re.findall(r"Reason\.([A-Z_]+)", plan)} <= WORDS.keys()


def look_at(**scene: Any) -> Look:
    return Look(key=Key(CLUSTER, "JobSet", "default", "train"), scene=Scene(now=NOW, **scene), began_at=NOW)


def test_an_answer_quotes_what_gke_says_of_a_pool_without_machines_and_the_scheduler_of_a_pod() -> None:
    listed: dict[str, Any] = {"name": "p", "status": PoolStatus.RUNNING, "shape": PoolShape(""), "node_labels": {}}
    short = Pool(**listed, word=Word.CAUSE, cause="ZONE_RESOURCE_POOL_EXHAUSTED")

    look = look_at(pools=(short,))
    look.pods = [a_pod(scheduler_message="no room")]

    assert explain_answer(Answer(Reason.PAUSED), look).message.endswith(": ZONE_RESOURCE_POOL_EXHAUSTED")
    assert explain_answer(Answer(Reason.POD_UNPLACED), look).message.endswith(" (the scheduler says: no room)")


@pytest.mark.parametrize(
    ("verb", "words"), [(Verb.CREATE, "created"), (Verb.RAISE, "changed"), (Verb.LOWER, "changed")]
)
def test_a_refusal_says_what_could_not_be_done(verb: Verb, words: str) -> None:
    look, act = look_at(), Act(verb=verb, pool="p")
    done = note(Decision(Verdict.RESIZE, Reason.POOL_GROWS, ""), look, pool="p")

    outcome = explain_refusal(act, Busy("an operation runs"), done, look)

    assert outcome.decision.message == f"node pool p cannot be {words} yet: an operation runs"
    assert outcome.error is not None


def test_a_delete_makes_few_reads_and_reads_the_pods_last() -> None:
    world = World()
    (name,) = world.run_all()
    world.finish()
    world.take_calls()
    world.collector.tick()

    calls = world.take_calls()
    of_the_tick = [f"get namespace {name}" for name in ("tpu-provisioner", "default", "kube-system")]
    ours = calls[calls.index("list nodes") + 1 :]  # the last list that the tick shares
    for call in of_the_tick:
        ours.remove(call)
    assert ours[-3].startswith("list pods on "), ours
    assert ours[-2:] == [f"delete {name}", "write Event"]
    hosts = sum(call.startswith("list pods on ") for call in ours)
    assert hosts == 4
    assert len(ours) - 2 - (hosts - 1) <= 8, ours


def test_a_check_is_marked_active_once() -> None:
    world = World(gangs=["train"])
    for active in (True, False, True):
        world.queues.check = structs.replace(CHECK, active=active)
        world.provisioner.tick()

    assert world.queues.marked == ["capacity"]


def count_way(work: Callable[[], object]) -> tuple[int, int]:
    """Return how many modules and functions of the product a call passes; no comprehensions."""
    functions: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _arg: Any) -> None:
        code = frame.f_code
        own = code.co_filename.startswith(SHARED) and not code.co_filename.startswith(EDGES)  # the fakes' reader
        if event == "call" and own and not code.co_name.startswith("<"):
            functions.add((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len({module for module, _ in functions}), len(functions)


def test_the_way_is_short() -> None:
    """The bounds are where it stands. The goals: 28 modules, 150 functions, and 24 and 120."""
    before, demand, over = World(), World(), World()
    for world in (before, demand):
        world.wait(0)
    before.provisioner.work()  # what is learnt once in a process is no part of the way
    over.run_all()
    over.finish(replicas=1)

    modules, functions = count_way(demand.provisioner.work)
    assert (modules <= MODULES, functions <= FUNCTIONS) == (True, True), (modules, functions)
    modules, functions = count_way(lambda: over.collector.work(uid=JOBSET_UID))
    assert (modules <= DELETE_MODULES, functions <= DELETE_FUNCTIONS) == (True, True), (modules, functions)
