"""A deployment in the middle of a bad night, as the board's readers would find it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cli.access.log_search import Answered
from cli.board.lanes import Created, Key
from cli.fleet.rows import PoolRow, WaitingRow
from cli.fleet.status import Status
from cli.messages.dead_letters import DeadLetter
from cli.usage.record_stream import Span
from shared.model.names import build_name, parse_name
from shared.model.pools import Operation
from tests.builders import CLUSTER, NOW, a_claim
from tests.cli.board_rows import a_row, a_wait

STOCKOUT = "[GCE_STOCKOUT] us-east5-b has no capacity for ct6e-standard-4t"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><b>bold</b>"


def pool_name(namespace: str, workload: str, slot: int, attempt: int = 0) -> str:
    """The name of the pool of a slot."""
    return build_name(a_claim(namespace=namespace, name=workload, slot=slot), attempt)


@dataclass
class Scene:
    """What is read; tests change it while a page is open."""

    pools: list[PoolRow] = field(default_factory=list)
    waiting: list[WaitingRow] = field(default_factory=list)
    creations: dict[Key, Created] = field(default_factory=dict)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    decisions: list[Answered] = field(default_factory=list)
    records: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    """The functions' log records of today, with their times."""
    errors: list[str] = field(default_factory=list)

    def look(self, *_arguments: Any) -> tuple[Status, dict[Key, Created]]:
        """As `cli.board.readings.look`."""
        status = Status(pools=list(self.pools), waiting=list(self.waiting), errors=list(self.errors))
        return status, self.creations

    def list_records(self, span: Span) -> Iterator[tuple[float, dict[str, Any]]]:
        """As `read_records`."""
        yield from (each for each in self.records if span.begin <= each[0] < span.end)

    def note(self, workload: str, slot: int, pool: str, **times: Any) -> None:
        """Add a create to GKE's operations."""
        parsed = parse_name(pool)
        assert parsed
        created = self.creations.setdefault((CLUSTER, "prod", workload, parsed.hash), Created(str(slot)))
        created.operations.append(Operation(pool=pool, creates=True, **times))

    def serve(self, workload: str, *, minutes: float, **row: Any) -> None:
        """Add a slot whose pool was asked for so many minutes ago, and took four."""
        pool = pool_name("prod", workload, 0)
        began, ended = NOW - 60 * minutes, NOW - 60 * minutes + 240
        self.pools.append(
            a_row(pool, **{"namespace": "prod", "workload": workload, "age_seconds": 60 * minutes, **row})
        )
        done = ended < NOW
        self.note(workload, 0, pool, ended=done, began_at=began, ended_at=ended if done else None)

    def fail(self, workload: str, *, times: int) -> None:
        """Add a slot whose creations fail, each after two minutes, with growing pauses."""
        at, waits = NOW - 120.0, NOW
        for attempt in reversed(range(times)):
            pool = pool_name("prod", workload, 1, attempt)
            self.note(workload, 1, pool, ended=True, error=STOCKOUT, began_at=at, ended_at=at + 110)
            waits, at = at, at - 110 - 60 * 2 ** max(0, attempt - 1)
        self.waiting.append(
            a_wait(
                namespace="prod",
                workload=workload,
                waiting_seconds=NOW - waits + 4,
                reason="paused",
                failures=times,
                failure="stockout",
                stuck=True,
                attempt=times - 1,
                message="every way to get ct6e-standard-4t was tried; the next try follows after a pause",
            )
        )


def a_bad_night() -> Scene:
    """Slices that run, wait, fail, are refused and end; dead letters; decisions."""
    scene = Scene()
    scene.serve("llama-pretrain", minutes=21, hosts_busy=4)
    scene.fail("llama-pretrain", times=4)
    over = {"decision": "delete", "reason": "workload_over", "message": "its workload completed"}
    scene.serve("nightly-eval", minutes=17, **over)
    scene.serve("tuning-42", minutes=2, state="PROVISIONING", nodes=0)
    scene.waiting.append(
        a_wait(
            namespace="research",
            workload="odd-shape",
            shape="tpu-v5-lite-device",
            waiting_seconds=400.0,
            decision="refuse",
            reason="shape_unsupported",
            message="google.com/tpu: no machine has 3 chips; valid: 1, 4, 8",
            stuck=True,
        )
    )
    scene.dead_letters = [a_dead_letter(str(number)) for number in (101, 102)]
    messages = [
        ("prod", "llama-pretrain", "create", "pool_failed", "creating attempt 3 after a stockout"),
        ("research", "odd-shape", "refuse", "shape_unsupported", "no machine has 3 chips; valid: 1, 4, 8"),
        ("prod", "nightly-eval", "delete", "workload_over", "deleting the pool: its workload completed"),
        ("prod", "tuning-42", "create", "pool_absent", "creating 4 x ct6e-standard-4t"),
    ]
    scene.decisions = [
        Answered(
            at=NOW - 30 * number,
            claim={"namespace": namespace, "name": name},
            decision=decision,
            reason=reason,
            message=message,
        )
        for number, (namespace, name, decision, reason, message) in enumerate(messages)
    ]
    return scene


def a_dead_letter(message_id: str, **overrides: str) -> DeadLetter:
    """One dead letter."""
    plain = {
        "message_id": message_id,
        "publish_time": "2027-01-15T07:58:00Z",
        "reason": "cluster_unknown",
        "function": "provision",
        "subject": "namespaces/prod/pods/stray-0",
        "error": "this deployment does not serve the cluster",
        "event_id": "",
        "data": "",
    }
    return DeadLetter(attributes={}, **{**plain, **overrides})
