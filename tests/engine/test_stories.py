"""Stories of the engine: each row of ``stories.yaml`` ends as it says, step by step."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from msgspec import structs

from shared.engine.outside import Role
from shared.engine.wakes import Tick, Work
from shared.model.pools import PoolStatus
from tests.builders import JOBSET_UID
from tests.engine.world import ERRORS, TEMPLATES, Function, World, list_reasons
from tests.rows import read_table, rows

FILE = str(Path(__file__).parent / "stories.yaml")
WORDS: dict[str, Any] = {"true": True, "false": False} | TEMPLATES | {each: each for each in PoolStatus}


def read_word(text: str) -> Any:
    """Return a number, or the word itself."""
    return int(text) if text.isdecimal() else text


def read_fields(words: list[str]) -> dict[str, Any]:
    """Return ``name=value`` words as fields; a list is in brackets."""
    fields = dict(word.split("=", 1) for word in words)
    return {
        name: text.strip("[]").split(",") if text.startswith("[") else WORDS.get(text, read_word(text))
        for name, text in fields.items()
    }


class Story:
    """A world to which the steps of a row happen, and what is woken and asked there."""

    def __init__(self, **has: Any) -> None:
        self.world = World(**has)
        self.last: Work | Tick | None = None

    def tell(self, step: str) -> None:
        """Let one step happen, ``verb words``; after an arrow stand the reasons that it gives."""
        text, arrow, reasons = step.partition(" -> ")
        verb, *words = text.split()
        name = verb.replace("-", "_") + "_" * (verb == "pass")
        fields = [word for word in words if re.match(r"\w+=", word)]
        act = getattr(self, name, None) or getattr(self.world, name)
        act(*(read_word(word) for word in words if word not in fields), **read_fields(fields))
        if arrow:
            assert self.last is not None
            assert " ".join(list_reasons(self.last)) == reasons.replace("nothing", ""), step

    def name_calls(self, pattern: str) -> tuple[str, int]:
        """Return a pattern and the number after ``#``; ``<0>`` is a pool, _ a blank."""
        text, _, nth = pattern.partition("#")
        named = re.sub(r"<(\d+)>", lambda pool: self.world.gke.names[int(pool[1])], text.replace("_", " "))
        return named, int(nth or 1)

    # --- what the functions are woken for, and when ---

    def provision(self, name: str = "train") -> None:
        self.last = self.world.provisioner.work(name)

    def collect(self, uid: str = JOBSET_UID) -> None:
        self.last = self.world.collector.work(uid=uid)

    def tick(self, role: str) -> None:
        self.last = self.choose(role).tick()

    def end(self, pool: int, how: str, role: str = Role.PROVISION) -> None:
        created, deleted = how == "created", how == "deleted"
        problem = "" if created or deleted else how
        name = self.world.find_pool(pool)
        self.last = self.choose(role).end(name, created=created, deleted=deleted, problem=problem)

    def choose(self, role: str) -> Function:
        return self.world.provisioner if role == Role.PROVISION else self.world.collector

    def pass_(self, seconds: int) -> None:
        self.world.clock.pause(seconds)

    # --- what happens before a call ---

    def fail(self, calls: str, error: str) -> None:
        pattern, nth = self.name_calls(calls)
        self.world.fail(pattern, ERRORS[error], nth=nth)

    def slow(self, calls: str, seconds: int, times: int = 1) -> None:
        pattern, nth = self.name_calls(calls)
        self.world.on(pattern, lambda: self.pass_(seconds), nth=nth, times=times)

    def before(self, calls: str, *step: object, **fields: object) -> None:
        pattern, nth = self.name_calls(calls)
        words = [*map(str, step), *(f"{key}={value}" for key, value in fields.items())]
        self.world.on(pattern, lambda: list(map(self.tell, " ".join(words).split(" and "))), nth=nth)

    def began(self, name: str) -> None:
        """A gang that began waits for a free slot."""
        self.world.memory.wait(structs.replace(self.world.key, name=name), 0.0, begun=True)

    # --- what must be so ---

    def pools(self, count: int) -> None:
        assert len(self.world.gke.pools) == count

    def owners(self, *names: str) -> None:
        assert [pool.owner.name for pool in self.world.gke.pools.values() if pool.owner] == list(names)

    def deleted(self, *pools: int | str) -> None:
        names = [self.world.find_pool(pool) for pool in pools if pool != "none"]
        assert sorted(self.world.list_deleted()) == sorted(names)

    def forget_calls(self) -> None:
        self.world.take_calls()

    def calls(self, calls: str, count: int) -> None:
        pattern, _ = self.name_calls(calls)
        assert sum(fnmatch(call, pattern) for call in self.world.gke.calls) == count, self.world.gke.calls

    def errors(self, *names: str) -> None:
        assert self.last is not None
        found = [each[1] if isinstance(each, tuple) else each for each in self.last.errors]
        assert sorted({type(error).__name__ for error in found}) == sorted(
            name for name in names if name != "none"
        )

    def says(self, *words: object) -> None:
        assert self.last is not None
        assert " ".join(map(str, words)) in self.last.outcomes[-1].decision.message

    def about(self, *words: str) -> None:
        assert self.last is not None
        assert self.last.outcomes[-1].subject.startswith(" ".join(words))

    def events(self, count: int, *words: str) -> None:
        notices = self.world.cluster.notices
        assert len(notices) == count
        assert all(" ".join(words) in f"{each.subject.kind} {each.reason} {each.message}" for each in notices)

    def figures(self, **figures: int) -> None:
        assert isinstance(self.last, Tick)
        assert self.last.figures == figures

    def nodes(self, state: str) -> None:
        nodes = self.world.cluster.nodes.values()
        states = {"closed" if node.closed else "idle" if node.idle_since else "open" for node in nodes}
        assert states == {state}

    def zone(self, pool: int, zone: str) -> None:
        assert self.world.gke.pools[self.world.find_pool(pool)].zones == (zone,)

    def maximum(self, pool: int, nodes: int) -> None:
        assert self.world.gke.pools[self.world.find_pool(pool)].maximum == nodes

    def facts(self, **facts: object) -> None:
        assert self.last is not None
        assert facts.items() <= self.last.outcomes[-1].facts.items(), self.last.outcomes[-1].facts

    def lacks(self, fact: str) -> None:
        assert self.last is not None
        assert fact not in self.last.outcomes[-1].facts

    def check(self, name: str, state: str, *words: object) -> None:
        found, pause = self.world.queues.state(name), self.world.queues.pauses[-1]
        assert (found.state, " ".join(map(str, words)) in found.message) == (state, True), found
        assert (found.since == "", pause) == (state == "Pending", {"Retry": 60}.get(state)), found
        assert not found.message.endswith(": ")

    def written(self, count: int) -> None:
        assert len(self.world.queues.pauses) == count


@rows("row", read_table(FILE, "about has begins does", section="about"))
def test_a_story_ends_as_it_says(row: dict[str, Any]) -> None:
    story = Story(**row.get("has", {}))
    for step in f"{row.get('begins', '')}; {row['does']}".split("; "):
        if step:
            story.tell(step)
