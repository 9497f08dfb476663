"""The measured lives as files, one per cluster, so that the table can be made of runs on both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lives.running import Measured

if TYPE_CHECKING:
    from tests.lives.running import Run
    from tests.lives.slices import Shuffle

FOLDER = Path(__file__).resolve().parents[2] / "build" / "lives"


class NotMeasured(Exception):
    """There is no result for a cluster; the text says how to get one."""


def keep(run: Run, folder: Path = FOLDER) -> None:
    """Write what a run measured, if every life of it was lived to its end."""
    if run.errors:
        return
    folder.mkdir(parents=True, exist_ok=True)
    body = {"seconds": round(run.seconds, 1), "lives": {name: m.as_data() for name, m in run.measured.items()}}
    (folder / f"{run.kind}.json").write_text(json.dumps(body, indent=2) + "\n")


def read(kind: str, folder: Path = FOLDER) -> dict[str, Measured]:
    """Return what the latest whole run on a cluster measured.

    Raises:
        NotMeasured: there was none yet.
    """
    path = folder / f"{kind}.json"
    if not path.exists():
        raise NotMeasured(f"{path} is missing; run: python -m pytest tests/lives, and again with -m cluster")
    return {name: Measured(**each) for name, each in json.loads(path.read_text())["lives"].items()}


def keep_shuffle(found: Shuffle, folder: Path = FOLDER) -> None:
    """Write what a shuffled run came to."""
    folder.mkdir(parents=True, exist_ok=True)
    body = {kind: tally.as_data() for kind, tally in found.tallies.items()}
    body |= {"shared": found.shared, "seconds": found.seconds}
    (folder / f"slices-{found.kind}.json").write_text(json.dumps(body, indent=2) + "\n")


def read_shuffle(kind: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Return what the latest shuffled run on a cluster came to.

    Raises:
        NotMeasured: there was none yet.
    """
    path = folder / f"slices-{kind}.json"
    if not path.exists():
        raise NotMeasured(f"{path} is missing; run: python -m pytest tests/lives, and again with -m cluster")
    found: dict[str, Any] = json.loads(path.read_text())
    return found
