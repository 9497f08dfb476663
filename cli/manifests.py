"""Reads the workloads of manifest files; says with file and document what cannot be read."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cli.endings import BadInput
from shared.core.errors import ProvisionerError
from shared.core.kinds.table import KINDS
from shared.edges.workload_objects import read_workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shared.core.kinds.kind import Kind
    from shared.core.workloads import WorkloadView

_SUFFIXES = (".yaml", ".yml", ".json")
_GENERATED = "xxxxx"
"""As long as what Kubernetes appends to a generateName."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One workload and where it stands."""

    where: str
    workload: WorkloadView


@dataclass(slots=True)
class Found:
    """What some files hold."""

    workloads: list[Manifest]
    others: list[str]
    """Objects of other kinds, as ``Kind name``: nothing is planned for them."""


def read_manifests(paths: Iterable[str]) -> Found:
    """Return the workloads of files and folders; ``-`` is standard input.

    Raises:
        BadInput: something cannot be read or is no Kubernetes object, or there is no workload at all.
    """
    found = Found([], [])
    for path in paths:
        for where, text in _read_texts(path):
            _add(found, where, text)
    if not found.workloads:
        others = ", ".join(found.others) or "nothing"
        valid = ", ".join(f"{kind.name} of {kind.group}" for kind in KINDS)
        raise BadInput(f"{', '.join(paths)}: no workload inside (found: {others}); valid: {valid}")
    return found


def _read_texts(path: str) -> Iterator[tuple[str, str]]:
    if path == "-":
        yield "standard input", sys.stdin.read()
        return
    home = Path(path)
    files = sorted(each for each in home.iterdir() if each.suffix in _SUFFIXES) if home.is_dir() else [home]
    if not files:
        raise BadInput(f"{path}: no manifest in this folder; valid: files ending in {', '.join(_SUFFIXES)}")
    for file in files:
        try:
            yield str(file), file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(
                f"{file}: cannot be read: {error}; valid: a YAML file, a folder of them, or -"
            ) from error


def _add(found: Found, where: str, text: str) -> None:
    try:
        documents = [body for body in yaml.safe_load_all(text) if body is not None]
    except yaml.YAMLError as error:
        raise BadInput(f"{where}: not YAML: {' '.join(str(error).split())}") from error
    objects = [each for body in documents for each in _flatten(body)]
    for number, body in enumerate(objects, start=1):
        place = f"{where}, document {number}"
        if not isinstance(body, dict) or not isinstance(body.get("kind"), str):
            raise BadInput(f"{place}: kind: missing (got {str(body)[:60]!r}); valid: a Kubernetes object")
        kind = _find_kind(body)
        if kind:
            found.workloads.append(Manifest(place, _read(place, kind, body)))
        else:
            metadata = body.get("metadata")
            name = metadata.get("name", "") if isinstance(metadata, dict) else ""
            found.others.append(f"{body['kind']} {name}".strip())


def _flatten(body: Any) -> list[Any]:
    if isinstance(body, dict) and body.get("kind") == "List" and isinstance(body.get("items"), list):
        return list(body["items"])
    return [body]


def _find_kind(body: dict[str, Any]) -> Kind | None:
    """Return the kind of an object; whatever the version, which Kubernetes converts."""
    group = str(body.get("apiVersion", "")).rpartition("/")[0]
    return next((kind for kind in KINDS if (kind.name, kind.group) == (body["kind"], group)), None)


def _read(place: str, kind: Kind, body: dict[str, Any]) -> WorkloadView:
    metadata = body["metadata"] if isinstance(body.get("metadata"), dict) else {}
    prefix = metadata.get("generateName")
    name = metadata.get("name") or (f"{prefix}{_GENERATED}" if prefix else "")
    if not name:
        raise BadInput(f"{place}: metadata.name: missing; valid: name or generateName")
    named = {**metadata, "name": name, "namespace": metadata.get("namespace") or "default"}
    try:
        workload = read_workload(kind, {**body, "metadata": named})
    except ProvisionerError as error:
        raise BadInput(f"{place}: {error}") from error
    if not workload.groups:
        raise BadInput(f"{place}: spec: nothing in it makes pods; valid: a complete {kind.name}")
    return workload
