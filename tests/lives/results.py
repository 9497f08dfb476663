"""The measured lives as files, one for each cluster: the tables are made of both runs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.lives.running import Measured, Run
from tests.lives.slices import Shuffle

FOLDER = Path(__file__).resolve().parents[2] / "build" / "lives"


class NotMeasured(Exception):
    """There is no result for a cluster; the text says how to get one."""


def keep(run: Run, folder: Path = FOLDER) -> None:
    """Write what a run measured, if every life of it was lived to its end."""
    if run.errors:
        return
    body = {"seconds": round(run.seconds, 1), "lives": {name: asdict(m) for name, m in run.measured.items()}}
    _write(folder / f"{run.kind}.json", body)


def read(kind: str, folder: Path = FOLDER) -> dict[str, Measured]:
    """Return what the latest whole run on a cluster measured.

    Raises:
        NotMeasured: there was none yet.
    """
    found = _read(folder / f"{kind}.json")
    return {name: Measured(**each) for name, each in found["lives"].items()}


def keep_shuffle(found: Shuffle) -> None:
    """Write what a shuffled run came to."""
    body: dict[str, Any] = {kind: asdict(tally) for kind, tally in found.tallies.items()}
    _write(FOLDER / f"slices-{found.kind}.json", body | {"shared": found.shared, "seconds": found.seconds})


def read_shuffle(kind: str) -> dict[str, Any]:
    """Return what the latest shuffled run on a cluster came to.

    Raises:
        NotMeasured: there was none yet.
    """
    return _read(FOLDER / f"slices-{kind}.json")


def _write(path: Path, body: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, indent=2) + "\n")


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise NotMeasured(f"{path} is missing; run: python -m pytest tests/lives, and again with -m cluster")
    found: dict[str, Any] = json.loads(path.read_text())
    return found
