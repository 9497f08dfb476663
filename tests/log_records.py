"""What a process of ours has logged so far, while it may be writing on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def read_records(log: Path, *, among_text: bool = False) -> list[dict[str, Any]]:
    """Return the structured records of a log, one a line; an unfinished last line does not count.

    Args:
        log: What the process writes to.
        among_text: Pass over other programs' text between the records. Without it, such text is an
            error.

    Raises:
        json.JSONDecodeError: a line is no record.
    """
    lines = log.read_text().rpartition("\n")[0].splitlines()
    return [json.loads(line) for line in lines if not among_text or line.startswith("{")]
