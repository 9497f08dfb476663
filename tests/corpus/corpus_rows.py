"""The rows of the corpus: which public files, and what `plan` must say of them, by reference.

`rows.yaml` says how they are written. A row that cannot be read is an error that names it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROWS = Path(__file__).with_name("rows.yaml")
KINDS = (
    *("JobSet", "Job", "Pod", "LeaderWorkerSet", "StatefulSet", "Deployment"),
    *("RayCluster", "RayJob", "RayService", "PathwaysJob"),
)
NOT_PLANNED = "not planned"
_POOLS = re.compile(
    r"(?P<number>[1-9]\d*) x (?P<machine>[a-z0-9]+(?:-[a-z0-9]+)+)(?: (?P<topology>\d+(?:x\d+)+))?, "
    r"(?P<hosts>[1-9]\d*) hosts?, (?P<chips>[1-9]\d*) chips?"
)
_WITHOUT = re.compile(r"(refused|left): [a-z_]+")
_MADE = {"RayJob": "RayCluster/{}-xxxxx", "RayService": "RayCluster/{}-xxxxx", "PathwaysJob": "JobSet/{}"}
"""What controllers make of these objects, and its name. KubeRay adds five letters of its own
(https://github.com/ray-project/kuberay/blob/master/ray-operator/controllers/ray/utils/util.go)."""
_FIELDS = {"repository", "path", "gets", "unreadable", "why", "wrong"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One file, and what must be said of it."""

    repository: str
    """``owner/name`` on GitHub."""
    commit: str
    path: str
    gets: Mapping[str, str]
    """By kind and name: `NOT_PLANNED`, ``refused: REASON``, ``left: REASON``, or its pools."""
    unreadable: str = ""
    """What is said of a document that cannot be read."""
    wrong: str = ""
    """How `plan` is known to be wrong; empty where it is right."""

    @property
    def name(self) -> str:
        """Return the file's name for people."""
        return f"{self.repository}/{self.path}"

    @property
    def wants(self) -> dict[str, str]:
        """Return what must be said, by the workload that gets it; nothing for those passed over."""
        wanted = {workload: outcome for workload, outcome in self.gets.items() if outcome != NOT_PLANNED}
        return {_name_made(workload): outcome for workload, outcome in wanted.items()}


def read_rows(text: str = "") -> tuple[Row, ...]:
    """Return all rows.

    Args:
        text: YAML; empty for that of the file.

    Raises:
        ValueError: a row has an unknown field or outcome, or names no known repository.
    """
    document: dict[str, Any] = yaml.safe_load(text or ROWS.read_text(encoding="utf-8"))
    return tuple(_read_row(each, document["repositories"]) for each in document["rows"])


def _read_row(given: dict[str, Any], commits: Mapping[str, str]) -> Row:
    where = f"{given.get('repository')}/{given.get('path')}"
    if unknown := set(given) - _FIELDS:
        raise ValueError(f"{where}: {sorted(unknown)}: is not known; valid: {', '.join(sorted(_FIELDS))}")
    if given.get("repository") not in commits:
        raise ValueError(f"{where}: repository: has no commit; valid: one of {', '.join(sorted(commits))}")
    gets = given.get("gets", {})
    for workload, outcome in gets.items():
        kind, _, name = workload.partition("/")
        if kind not in KINDS or not name:
            raise ValueError(f"{where}: gets: is not valid (got '{workload}'); valid: KIND/NAME")
        if outcome != NOT_PLANNED and not _WITHOUT.fullmatch(outcome) and not _POOLS.fullmatch(outcome):
            raise ValueError(
                f"{where}: gets.{workload}: is not valid (got '{outcome}'); valid: '{NOT_PLANNED}', "
                "'refused: REASON', 'left: REASON' or '2 x MACHINE TOPOLOGY, 4 hosts, 16 chips'"
            )
    if not gets and not given.get("unreadable"):
        raise ValueError(f"{where}: gets: is missing; valid: what each workload gets, or 'unreadable'")
    return Row(
        repository=given["repository"],
        commit=commits[given["repository"]],
        path=given["path"],
        gets=gets,
        unreadable=given.get("unreadable", ""),
        wrong=given.get("wrong", ""),
    )


def _name_made(workload: str) -> str:
    kind, _, name = workload.partition("/")
    # The API server ends a generated name with five letters of its own.
    return _MADE.get(kind, f"{kind}/{{}}").format(f"{name}xxxxx" if name.endswith("-") else name)


def write_outcomes(needs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return what `plan --json` says of its needs, in the words of the rows.

    A workload whose pools differ gets all their outcomes, and equals no row.
    """
    fields: dict[str, Counter[str]] = {}
    for each in needs:
        workload = f"{each['kind']}/{each['workload']}"
        fields.setdefault(workload, Counter())[_write_need(each)] += max(1, each["pools"])
    return {workload: "; ".join(_join(counted)) for workload, counted in fields.items()}


def _join(counted: Counter[str]) -> Iterable[str]:
    return (f"{number} x {what}" if "," in what else what for what, number in counted.items())


def _write_need(each: Mapping[str, Any]) -> str:
    if each["decision"] == "create":
        hosts, chips = each["node_count"] // each["pools"], each["chips"] // each["pools"]
        pool = " ".join(filter(None, (each["machine_type"], each["topology"])))
        return f"{pool}, {hosts} host{'s' * (hosts != 1)}, {chips} chip{'s' * (chips != 1)}"
    return f"{'refused' if each['decision'] == 'refuse' else 'left'}: {each['reason']}"
