"""A deployment in the middle of a bad night, as the board's readers would find it."""

from dataclasses import dataclass, field
from typing import Any

from cli.board.site import Board
from cli.fleet.rows import PoolRow, WaitingRow
from cli.fleet.status import Status
from shared.model.names import build_name
from tests.builders import a_claim
from tests.cli.board_rows import a_row, a_wait

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><b>bold</b>"


def pool_name(workload: str) -> str:
    """The name of the pool of a slot."""
    return build_name(a_claim(namespace="prod", name=workload, slot=0), 0)


@dataclass
class Scene:
    """What a board reads; tests change it while a page is open."""

    board: Board
    pools: list[PoolRow]
    waiting: list[WaitingRow]
    errors: list[str] = field(default_factory=list)

    def read_status(self, *_arguments: Any, **_options: Any) -> Status:
        """As `cli.fleet.status.read_status`."""
        return Status(pools=list(self.pools), waiting=list(self.waiting), errors=list(self.errors))


def a_bad_night(board: Board) -> Scene:
    """Slices that run, wait, are refused and end."""
    over = {"decision": "delete", "reason": "workload_over", "message": "its workload completed"}
    pools = [
        a_row(pool_name("llama-pretrain"), namespace="prod", workload="llama-pretrain", hosts_busy=4),
        a_row(pool_name("nightly-eval"), namespace="prod", workload="nightly-eval", **over),
        a_row(pool_name("tuning-42"), "PROVISIONING", namespace="prod", workload="tuning-42", nodes=0),
    ]
    waiting = [
        a_wait(
            namespace="prod",
            workload="llama-pretrain",
            waiting_seconds=900.0,
            reason="paused",
            failures=4,
            failure="stockout",
            stuck=True,
            next_try="2027-01-15T08:10:00Z",
            message="every way to get ct6e-standard-4t was tried; the next try follows after a pause",
        ),
        a_wait(
            namespace="research",
            workload="odd-shape",
            shape="tpu-v5-lite-device",
            waiting_seconds=400.0,
            decision="refuse",
            reason="shape_unsupported",
            message="google.com/tpu: no machine has 3 chips; valid: 1, 4, 8",
            stuck=True,
        ),
    ]
    return Scene(board, pools, waiting)
