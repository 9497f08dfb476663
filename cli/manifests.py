"""Reads the workloads of manifest files; says with file and document what cannot be read."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.endings import BadInput
from cli.manifest_yaml import NotYaml, read_yaml, show_line
from shared.core.errors import ProvisionerError
from shared.core.kinds.table import KINDS
from shared.edges.workload_objects import read_workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shared.core.kinds.kind import Kind
    from shared.core.workloads import WorkloadView

_SUFFIXES = (".yaml", ".yml", ".json")
_GENERATED = "xxxxx"
"""It has the length of the suffix that Kubernetes appends to a generateName."""


_CHARACTERS_MAX = 10_000_000
_PREFIX_MAX = 58
"""Kubernetes cuts a generateName to this length:
https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apiserver/pkg/storage/names/generate.go."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_VALID_NAME = "at most 253 lower-case letters, digits, '-' and '.', the first and last a letter or digit"
_SHOWN_MAX = 60


@dataclass(frozen=True, slots=True)
class Manifest:
    """One workload, and the file and document that it comes from."""

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
        BadInput: something cannot be read or is no Kubernetes object, or there is no workload at
            all.
    """
    found = Found([], [])
    for path in paths:
        for where, text in _read_texts(path):
            _add(found, where, text)
    if not found.workloads:
        others = ", ".join(found.others) or "nothing"
        valid = ", ".join(f"{kind.name} of {kind.group}" for kind in KINDS)
        raise BadInput(f"{', '.join(paths)}: contains no workload (found: {others}); valid: {valid}")
    return found


def _read_texts(path: str) -> Iterator[tuple[str, str]]:
    if path == "-":
        yield "standard input", sys.stdin.read()
        return
    home = Path(path)
    files = sorted(each for each in home.iterdir() if each.suffix in _SUFFIXES) if home.is_dir() else [home]
    if not files:
        raise BadInput(f"{path}: this folder contains no manifest; valid: {', '.join(_SUFFIXES)} files")
    for file in files:
        try:
            yield str(file), file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(
                f"{file}: cannot be read: {error}; valid: a YAML or JSON file, a folder, or -"
            ) from error


def _add(found: Found, where: str, text: str) -> None:
    if len(text) > _CHARACTERS_MAX:
        raise BadInput(f"{where}: is too long ({len(text)} characters); valid: at most {_CHARACTERS_MAX}")
    try:
        documents = read_yaml(text)
    except NotYaml as error:
        raise BadInput(f"{where}: {error}") from error
    objects = list(_flatten(where, documents))
    for number, body in enumerate(objects, start=1):
        place = f"{where}, document {number}"
        _check_object(place, body)
        kind = _find_kind(body)
        if kind:
            found.workloads.append(Manifest(place, _read(place, kind, body)))
        else:
            name = body["metadata"].get("name", "") if isinstance(body.get("metadata"), dict) else ""
            found.others.append(show_line(f"{body['kind'][:_SHOWN_MAX]} {str(name)[:_SHOWN_MAX]}"))


def _flatten(where: str, bodies: Iterable[Any]) -> Iterator[Any]:
    """Yield the objects, in place of a ``List`` its items."""
    for body in bodies:
        if isinstance(body, dict) and body.get("kind") == "List":
            items = body.get("items") or []
            if not isinstance(items, list):
                raise BadInput(_describe(where, "items", items, "a list of objects"))
            yield from _flatten(where, items)
        else:
            yield body


def _check_object(place: str, body: Any) -> None:
    if not isinstance(body, dict):
        raise BadInput(_describe(place, "the document", body, "a Kubernetes object"))
    for field in ("kind", "apiVersion"):
        if not body.get(field):
            raise BadInput(f"{place}: {field}: is missing; valid: a Kubernetes object")
        if not isinstance(body[field], str):
            raise BadInput(_describe(place, field, body[field], "a text"))


def _describe(place: str, field: str, got: Any, valid: str) -> str:
    return f"{place}: {field}: is not valid (got {str(got)[:_SHOWN_MAX]!r}); valid: {valid}"


def _find_kind(body: dict[str, Any]) -> Kind | None:
    """Return the kind of an object; whatever the version, which Kubernetes converts."""
    group = body["apiVersion"].rpartition("/")[0]
    return next((kind for kind in KINDS if (kind.name, kind.group) == (body["kind"], group)), None)


def _read(place: str, kind: Kind, body: dict[str, Any]) -> WorkloadView:
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise BadInput(_describe(place, "metadata", metadata, "an object"))
    named = {**metadata, "namespace": metadata.get("namespace") or "default"}
    prefix = metadata.get("generateName")
    if not metadata.get("name") and isinstance(prefix, str) and prefix:
        named["name"] = prefix[:_PREFIX_MAX] + _GENERATED
    if not named.get("name"):
        raise BadInput(f"{place}: metadata.name: is missing; valid: name or generateName")
    for field in ("name", "namespace"):
        if not isinstance(named[field], str) or not _NAME.fullmatch(named[field]):
            raise BadInput(_describe(place, f"metadata.{field}", named[field], _VALID_NAME))
    try:
        workload = read_workload(kind, {**body, "metadata": named})
    except ProvisionerError as error:
        raise BadInput(f"{place}: {error}") from error
    if not workload.groups:
        raise BadInput(f"{place}: spec: has no pod template; valid: a complete {kind.name}")
    return workload
