"""Rows of manifests with what `plan` must say of them, and what it says in the words of the rows.

`rows.yaml` has public files, by reference; `tests/field/rows.yaml` has the inputs beside it. A file
has its workloads with what they get, and fields of `Row`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

_MADE = {"RayJob": "RayCluster/{}-xxxxx", "RayService": "RayCluster/{}-xxxxx"}
"""What controllers make of these objects, and its name. KubeRay adds five letters of its own
(https://github.com/ray-project/kuberay/blob/master/ray-operator/controllers/ray/utils/util.go)."""


class Row(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One file, and what must be said of it."""

    path: str
    repository: str = ""  # ``owner/name`` on GitHub
    commit: str = ""
    gets: dict[str, str]
    """By kind and name: ``not planned``, ``refused: REASON``, ``left: REASON``, or its pools."""
    says: dict[str, str | list[str]] = {}  # words in what is said of a workload
    unreadable: list[str] = []  # what is said of a document that cannot be read
    prints: list[str] = []  # words on the screen, without line breaks
    code: int = 0  # the exit code
    why: str = ""  # where it is not obvious

    @property
    def wants(self) -> dict[str, str]:
        """Return what must be said, by the workload that gets it; nothing for those passed over."""
        wanted = {workload: outcome for workload, outcome in self.gets.items() if outcome != "not planned"}
        return {_name_made(workload): outcome for workload, outcome in wanted.items()}


def read_corpus() -> list[Row]:
    """Return the rows of public files, each with its repository and the commit that is read."""
    rows = []
    for place, files in _read("corpus").items():
        where = dict(zip(("repository", "commit"), place.split("@"), strict=True))
        rows += [_read_row(path, words | where) for path, words in files.items()]
    return rows


def read_field() -> list[Row]:
    """Return the rows of the inputs of the field."""
    return [_read_row(path, words) for path, words in _read("field").items()]


def _read(folder: str) -> dict[str, Any]:
    text = (Path(__file__).parents[1] / folder / "rows.yaml").read_text(encoding="utf-8")
    names = re.findall(r"^ *\S+\.yaml.*:$", text, re.MULTILINE)
    rows: dict[str, Any] = yaml.safe_load(text)
    assert len(set(names)) == len(names), f"{folder}: a file is there twice"
    return rows


def _read_row(path: str, words: dict[str, Any]) -> Row:
    gets = {key: value for key, value in words.items() if "/" in key}
    fields = {key: value for key, value in words.items() if "/" not in key}
    return msgspec.convert({"path": path, "gets": gets, **fields}, Row)


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
