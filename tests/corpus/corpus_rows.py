"""Rows of manifests with what `plan` must say of them, and what it says in the words of the rows.

`rows.yaml` has public files, by reference; `tests/field/rows.yaml` has the inputs beside it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MADE = {"RayJob": "RayCluster/{}-xxxxx", "RayService": "RayCluster/{}-xxxxx"}
"""What controllers make of these objects, and its name. KubeRay adds five letters of its own
(https://github.com/ray-project/kuberay/blob/master/ray-operator/controllers/ray/utils/util.go)."""


class Row(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One file, and what must be said of it."""

    path: str
    repository: str = ""  # ``owner/name`` on GitHub
    gets: dict[str, str] = {}
    """By kind and name: ``not planned``, ``refused: REASON``, ``left: REASON``, or its pools."""
    says: dict[str, str | list[str]] = {}  # words in what is said of a workload
    unreadable: list[str] = []  # what is said of a document that cannot be read
    prints: list[str] = []  # words on the screen, without line breaks
    code: int = 0  # the exit code
    environ: dict[str, str] = {}
    why: str = ""  # where it is not obvious
    wrong: str = ""  # how `plan` is known to be wrong; such a row must fail

    @property
    def wants(self) -> dict[str, str]:
        """Return what must be said, by the workload that gets it; nothing for those passed over."""
        wanted = {workload: outcome for workload, outcome in self.gets.items() if outcome != "not planned"}
        return {_name_made(workload): outcome for workload, outcome in wanted.items()}


class Catalogue(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Files, and the commit of each repository that they are in."""

    rows: list[Row]
    repositories: dict[str, str] = {}


def read_catalogue(folder: str = "corpus") -> Catalogue:
    """Return the rows of a folder beside this one."""
    path = Path(__file__).parents[1] / folder / "rows.yaml"
    return msgspec.yaml.decode(path.read_bytes(), type=Catalogue)


def _name_made(workload: str) -> str:
    kind, _, name = workload.partition("/")
    # The API server ends a generated name with five letters of its own.
    return _MADE.get(kind, f"{kind}/{{}}").format(f"{name}xxxxx" if name.endswith("-") else name)


def write_outcomes(needs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return what `plan -o json` says of its needs, in the words of the rows."""
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
