"""The measured lives as files, so that the tables can be made of runs on both clusters.

The lives of a JobSet run together and have one file per cluster; the scenarios of all kinds one
each.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lives.running import Measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.lives.running import Run
    from tests.lives.slices import Shuffle

FOLDER = Path(__file__).resolve().parents[2] / "build" / "lives"


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeOfKind:
    """What one life of a scenario in tests/kinds came to."""

    kind: str
    life: str
    elastic: bool
    """Whether its pools' sizes follow demand."""
    calls_most: int
    measured: Measured


class NotMeasured(Exception):
    """There is no result for a cluster; the text says how to get one."""


def keep(run: Run, folder: Path = FOLDER) -> None:
    """Write what a run measured, if every life of it was lived to its end."""
    if run.errors:
        return
    folder.mkdir(parents=True, exist_ok=True)
    body = {"seconds": round(run.seconds, 1), "lives": {name: asdict(m) for name, m in run.measured.items()}}
    (folder / f"{run.kind}.json").write_text(json.dumps(body, indent=2) + "\n")


def read(kind: str, folder: Path = FOLDER) -> dict[str, Measured]:
    """Return what the latest whole run on a cluster measured.

    Raises:
        NotMeasured: there was none yet.
    """
    found = _read(folder / f"{kind}.json")
    return {name: Measured(**each) for name, each in found["lives"].items()}


def keep_shuffle(found: Shuffle, folder: Path = FOLDER) -> None:
    """Write what a shuffled run came to."""
    folder.mkdir(parents=True, exist_ok=True)
    body: dict[str, Any] = {kind: asdict(tally) for kind, tally in found.tallies.items()}
    body |= {"shared": found.shared, "seconds": found.seconds}
    (folder / f"slices-{found.kind}.json").write_text(json.dumps(body, indent=2) + "\n")


def read_shuffle(kind: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Return what the latest shuffled run on a cluster came to.

    Raises:
        NotMeasured: there was none yet.
    """
    return _read(folder / f"slices-{kind}.json")


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise NotMeasured(f"{path} is missing; run: python -m pytest tests/lives, and again with -m cluster")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def keep_scenario(cluster: str, test: str, lives: Sequence[LifeOfKind], folder: Path = FOLDER) -> None:
    """Write what the lives of one scenario came to.

    Args:
        cluster: ``embedded`` or ``real``.
        test: As pytest names it, without parameters: ``FILE::FUNCTION``.
        lives: Of this scenario, of all its parameters.
        folder: Of all results.
    """
    path = _scenario_path(cluster, test, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(each) for each in lives], indent=2) + "\n")


def read_scenario(cluster: str, test: str, folder: Path = FOLDER) -> list[LifeOfKind]:
    """Return what the latest run of a scenario came to; nothing where it was not run."""
    path = _scenario_path(cluster, test, folder)
    found = json.loads(path.read_text()) if path.exists() else []
    return [LifeOfKind(**each | {"measured": Measured(**each["measured"])}) for each in found]


def _scenario_path(cluster: str, test: str, folder: Path) -> Path:
    return folder / "kinds" / cluster / f"{test.rpartition('/')[2].replace('.py::', '.')}.json"
