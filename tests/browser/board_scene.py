"""A deployment in the middle of a bad night, as the board's readers would find it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from shared.core.identity.creations import Creation

from cli.access.log_search import Answered
from cli.fleet.status import Status
from cli.fleet.status_rows import PoolRow, WaitingRow
from cli.messages.dead_letters import DeadLetter
from cli.usage.record_stream import Span
from shared.model.names import build_pool_name
from tests.builders import NOW, a_claim
from tests.cli.board_rows import a_row, a_wait

STOCKOUT = "[GCE_STOCKOUT] us-east5-b has no capacity for ct6e-standard-4t"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><b>bold</b>"


def pool_name(namespace: str, workload: str, slice_: str, attempt: int = 0) -> str:
    """The name of the pool of a slice."""
    claim = a_claim(namespace=namespace, name=workload, slice_key=f"{namespace}/{slice_}")
    return build_pool_name(claim, attempt)


@dataclass
class Scene:
    """What is read; tests change it while a page is open."""

    pools: list[PoolRow] = field(default_factory=list)
    waiting: list[WaitingRow] = field(default_factory=list)
    creations: list[Creation] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    decisions: list[Answered] = field(default_factory=list)
    records: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    """The functions' log records of today, with their times."""
    errors: list[str] = field(default_factory=list)

    def read(self, *_arguments: Any, **_options: Any) -> Status:
        """As `read_status`."""
        return Status(pools=list(self.pools), waiting=list(self.waiting), errors=list(self.errors))

    def list_records(self, span: Span) -> Iterator[tuple[float, dict[str, Any]]]:
        """As `read_records`."""
        yield from (each for each in self.records if span.begin <= each[0] < span.end)

    def serve(self, workload: str, slice_: str, *, minutes: float, **row: Any) -> None:
        """Add a slice whose pool was asked for so many minutes ago, and took four."""
        pool = pool_name("prod", workload, slice_)
        home = {"namespace": "prod", "workload": workload, "slice": slice_}
        began, ended = NOW - 60 * minutes, NOW - 60 * minutes + 240
        self.pools.append(a_row(pool, **{**home, "age_seconds": 60 * minutes, **row}))
        self.creations.append(
            Creation(pool=pool, ended=ended < NOW, began_at=began, ended_at=ended if ended < NOW else None)
        )

    def fail(self, workload: str, slice_: str, *, times: int) -> None:
        """Add a slice whose creations fail, each after two minutes, with growing pauses."""
        home = {"namespace": "prod", "workload": workload, "slice": slice_}
        at, waits = NOW - 120.0, NOW
        for attempt in reversed(range(times)):
            pool = pool_name("prod", workload, slice_, attempt)
            made = Creation(pool=pool, ended=True, error=STOCKOUT, code=8, began_at=at, ended_at=at + 110)
            self.creations.append(made)
            waits, at = at, at - 110 - 60 * 2 ** max(0, attempt - 1)
        self.waiting.append(
            a_wait(
                pool_name("prod", workload, slice_, times),
                **home,
                waiting_seconds=NOW - waits + 4,
                reason="stockout",
                failure="stockout",
                stuck=True,
                attempt=times - 1,
                message=f"attempt {times - 1} failed: no capacity in us-east5-b; next try at 08:04 UTC",
            )
        )


def a_bad_night() -> Scene:
    """Slices that run, wait, fail, are refused and end; dead letters; decisions."""
    scene = Scene()
    scene.serve(
        "llama-pretrain", "llama-pretrain-slice-0", minutes=21, hosts_busy=4, message="its workload is live"
    )
    scene.fail("llama-pretrain", "llama-pretrain-slice-1", times=4)
    scene.serve(
        "nightly-eval",
        "nightly-eval-slice-0",
        minutes=17,
        decision="delete",
        reason="workload_over",
        message="its workload completed",
    )
    scene.serve("tuning-42", "tuning-42-slice-0", minutes=2, state="PROVISIONING", reason="pool_in_progress")
    refused = {"namespace": "research", "workload": "odd-shape", "slice": "odd-shape-slice-0"}
    scene.waiting.append(
        a_wait(
            "",
            **refused,
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
