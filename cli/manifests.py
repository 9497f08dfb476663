"""Reads the JobSets of manifest files; says with file and document what cannot be read."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from cli.endings import BadInput
from shared.edges.workload_objects import JobSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_API_GROUP = "jobset.x-k8s.io/"
_SUFFIXES = (".yaml", ".yml", ".json")
_GENERATED = "xxxxx"
"""As long as what Kubernetes appends to a generateName."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One JobSet and where it stands."""

    where: str
    jobset: JobSet


@dataclass(slots=True)
class Found:
    """What some files hold."""

    jobsets: list[Manifest]
    others: list[str]
    """Objects of other kinds, as ``Kind name``: nothing is planned for them."""


def read_manifests(paths: Iterable[str]) -> Found:
    """Return the JobSets of files and folders; ``-`` is standard input.

    Raises:
        BadInput: something cannot be read or is no Kubernetes object, or there is no JobSet at all.
    """
    found = Found([], [])
    for path in paths:
        for where, text in _read_texts(path):
            _add(found, where, text)
    if not found.jobsets:
        others = ", ".join(found.others) or "nothing"
        raise BadInput(
            f"{', '.join(paths)}: no JobSet inside (found: {others}); valid: kind JobSet of {_API_GROUP}…"
        )
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
        if body["kind"] == "JobSet" and str(body.get("apiVersion", "")).startswith(_API_GROUP):
            found.jobsets.append(Manifest(place, _convert(place, body)))
        else:
            metadata = body.get("metadata")
            name = metadata.get("name", "") if isinstance(metadata, dict) else ""
            found.others.append(f"{body['kind']} {name}".strip())


def _flatten(body: Any) -> list[Any]:
    if isinstance(body, dict) and body.get("kind") == "List" and isinstance(body.get("items"), list):
        return list(body["items"])
    return [body]


def _convert(place: str, body: dict[str, Any]) -> JobSet:
    try:
        jobset = msgspec.convert(body, type=JobSet)
    except msgspec.ValidationError as error:
        raise BadInput(f"{place}: JobSet: {error}") from error
    metadata = body["metadata"] if isinstance(body.get("metadata"), dict) else {}
    prefix = metadata.get("generateName")
    name = metadata.get("name") or (f"{prefix}{_GENERATED}" if prefix else "")
    if not name:
        raise BadInput(f"{place}: metadata.name: missing; valid: name or generateName")
    if not jobset.spec.replicated_jobs:
        raise BadInput(f"{place}: spec.replicatedJobs: missing or empty; valid: a list of jobs")
    return msgspec.structs.replace(
        jobset,
        metadata=msgspec.structs.replace(
            jobset.metadata, name=name, namespace=jobset.metadata.namespace or "default"
        ),
    )
