"""Reads the workloads of manifest files, and names file and document of what cannot be read.

An error in one document does not stop the others. An object that creates workloads, for example a
CronJob, is replaced by these workloads.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.exit_codes import BadInput
from cli.planning.manifest_yaml import Document, is_list, read_documents
from cli.planning.objects import (
    GENERATED,
    MAKERS,
    RUNTIMES,
    Made,
    Maker,
    WrongField,
    check_object,
    find_requests,
    find_texts,
    list_refusals,
    without_nulls,
)
from shared.edges.pods import read_workload
from shared.kinds.read import UnexpectedValue
from shared.kinds.table import KINDS, get_kind
from shared.model.errors import ProvisionerError
from shared.model.labels import GPU_RESOURCE, TPU_RESOURCE
from shared.needs.refusals import find_other_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shared.kinds.kind import Json, Kind
    from shared.model.errors import Rejected
    from shared.model.workloads import WorkloadView

_SUFFIXES = (".yaml", ".yml", ".json")
_VALID = "a YAML or JSON file, a folder, or -"
_CHARACTERS_MAX = 10_000_000
_PREFIX_MAX = 58
"""Kubernetes cuts a generateName to this length:
https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apiserver/pkg/storage/names/generate.go."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_VALID_NAME = "at most 253 lower-case letters, digits, '-' and '.', the first and last a letter or digit"
_SHOWN_MAX, _SHOWN_PATH_MAX = 60, 300
_LIST_DEPTH_MAX = 50
_QUEUE = "kueue.x-k8s.io/queue-name"
_RESOURCES = f"{TPU_RESOURCE} or {GPU_RESOURCE}"
_RUNTIMES = ("TrainingRuntime", "ClusterTrainingRuntime")
"""What TrainJobs are made from; they ask for nothing themselves."""
_NAMED = {"ServiceAccount": "serviceAccountName", "PersistentVolumeClaim": "claimName"}
"""Fields of pods that name objects which must be there."""
_OBJECTS: dict[tuple[str, str], Maker | Kind] = {
    **{(kind.name, kind.group): kind for kind in KINDS},
    **{(maker.name, maker.group): maker for maker in MAKERS},
}
"""What is planned, by kind and group."""
Named = tuple[str, str, str]  # kind, namespace and name of an object


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object is."""

    file: str
    number: int  # of its document; the first one is 1
    document: Document = field(repr=False)
    path: str = ""  # of the object in its document, if that is a list, for example ``items[2].``

    def explain(self, error: Exception) -> str:
        """Return where an error is, and what it says: by the line of the field if it names one."""
        spot = self.document.find(self.path + error.field) if isinstance(error, WrongField) else None
        if spot is None or not isinstance(error, WrongField):
            return f"{self}: {error}"
        line, written = spot
        return f"{self.file}, document {self.number} (line {line}): {error.describe(written)}"

    def __str__(self) -> str:
        return f"{self.file}, document {self.number} (line {self.document.line})"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One workload, and what the manifests say of it."""

    workload: WorkloadView
    notes: tuple[str, ...] = ()  # what the author should know that no slice of it says
    names: tuple[Named, ...] = ()  # what it names and the cluster must have
    refusals: tuple[Rejected, ...] = ()  # why Kubernetes refuses it


@dataclass(slots=True)
class Found:
    """What some files hold."""

    workloads: list[Manifest] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """Objects for which nothing is planned, as ``Kind name``, with the reason where that is not
    plain."""
    problems: list[str] = field(default_factory=list)
    """What is wrong with an object, so that it is not planned, and where."""
    unserved: bool = False  # something else asks for accelerators
    defined: dict[Named, dict[str, Any]] = field(default_factory=dict)
    """All objects so far, but those whose names are generated."""
    late: list[tuple[Place, dict[str, Any]]] = field(default_factory=list)
    """They are read last, because what they are made from may come later."""


def read_manifests(paths: Iterable[str]) -> Found:
    """Return the workloads of files and folders; ``-`` is standard input."""
    contents = Found()
    for path in paths:
        for name, text in read_texts(path):
            _add(contents, name, text)
    runtimes = [each for own, each in contents.defined.items() if own[0] in _RUNTIMES]
    for where, body in contents.late:
        _add_object(contents, where, body | {RUNTIMES: runtimes})
    if not (contents.workloads or contents.others or contents.problems):
        valid = ", ".join(kind.name for kind in KINDS)
        raise BadInput(f"{', '.join(paths)}: contains no workload (found: nothing); valid: {valid}")
    return contents


def read_texts(path: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of a file, or of each file of a folder with those inside."""
    if path == "-":
        yield "standard input", sys.stdin.read()
        return
    name = path
    try:
        for file in _list_files(path):
            name = str(file)
            yield name, file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", "") or "it is not UTF-8 text"
        raise BadInput(f"{name[:_SHOWN_PATH_MAX]}: cannot be read: {why}; valid: {_VALID}") from error


def _list_files(path: str) -> list[Path]:
    home = Path(path)
    if not path or "\0" in path:
        raise BadInput(f"FILES: is no path (got {path!r}); valid: {_VALID}")
    if not home.is_dir():
        return [home]
    files = sorted(each for each in home.rglob("*") if each.suffix in _SUFFIXES and each.is_file())
    if not files:
        raise BadInput(f"{path}: no manifest is there; valid: {', '.join(_SUFFIXES)} files")
    return files


def _add(contents: Found, name: str, text: str) -> None:
    if len(text) > _CHARACTERS_MAX:
        raise BadInput(f"{name}: is too long ({len(text)} characters); valid: at most {_CHARACTERS_MAX}")
    for number, document in enumerate(read_documents(text), start=1):
        where = Place(name, number, document)
        if document.problem:
            contents.problems.append(f"{where}: {document.problem}")
        else:
            _add_object(contents, where, document.body)


def _add_object(contents: Found, where: Place, body: Any, depth: int = 0) -> None:
    """Add an object, or the items of a list; what is wrong with it becomes a problem."""
    if isinstance(body, dict) and not (body.get("kind") or body.get("apiVersion")):
        contents.others.append(f"{where} (no Kubernetes object: it has neither kind nor apiVersion)")
        return
    try:
        _check_identity(body)
        if is_list(body):
            _add_items(contents, where, body, depth)
        else:
            _add_one(contents, where, without_nulls(body))
    except (WrongField, UnexpectedValue, ProvisionerError) as error:
        contents.problems.append(where.explain(error))
    except RecursionError:
        contents.problems.append(f"{where}: is nested too deeply; valid: a Kubernetes object")


def _add_items(contents: Found, where: Place, body: dict[str, Any], depth: int) -> None:
    items = [] if body.get("items") is None else body["items"]
    if not isinstance(items, list) or depth >= _LIST_DEPTH_MAX:
        raise WrongField("items", items, "a list of objects, not nested deeply")
    kind = body["kind"].removesuffix("List")
    type_meta = {"kind": kind, "apiVersion": body["apiVersion"]} if kind else {}
    for number, item in enumerate(items):
        whole = {**type_meta, **item} if isinstance(item, dict) else item
        _add_object(contents, replace(where, path=f"{where.path}items[{number}]."), whole, depth + 1)


def _check_identity(body: Any) -> None:
    if not isinstance(body, dict):
        raise WrongField("the document", body, "a Kubernetes object")
    for each in ("kind",) if body.get("kind") == "List" else ("kind", "apiVersion"):
        if not body.get(each):
            raise WrongField(each, None, "a Kubernetes object")
        if not isinstance(body[each], str):
            raise WrongField(each, body[each], "a text")


def _add_one(contents: Found, where: Place, body: dict[str, Any]) -> None:
    kind = _OBJECTS.get((body["kind"], body["apiVersion"].rpartition("/")[0]))
    maker = kind if isinstance(kind, Maker) else None
    if kind is None:
        _add_other(contents, body)
    elif maker and maker.late and RUNTIMES not in body:
        contents.late.append((where, body))
    else:
        _check_version(body, kind)
        check_object({key: value for key, value in body.items() if key != RUNTIMES})
        _add_made(contents, body, maker)


def _add_made(contents: Found, body: dict[str, Any], maker: Maker | None) -> None:
    """Add a workload, or the one that an object makes, or why there is none that gets pools."""
    own_body = {**body, "metadata": _read_metadata(body)}
    _add_defined(contents, body)
    result = maker.make(own_body) if maker else Made(own_body, "")
    makes = f"{maker.name} {own_body['metadata']['name']}" if maker else ""
    if result.body is None:
        contents.others.append(f"{makes} ({result.note})")
        contents.unserved = True
        return
    made_body = result.body
    workload = read_workload(get_kind(made_body["kind"]), made_body)
    asking = [group.template for group in workload.groups if group.template.wants_accelerator]
    if not asking:
        _add_idle(contents, made_body, workload)
        return
    notes = [makes and f"made by {makes}", result.note]
    if not all(map(find_other_server, asking)):
        notes.append(_describe_queue(made_body, workload))
    refusals = tuple(list_refusals(made_body if RUNTIMES in body else body))
    manifest = Manifest(workload, tuple(filter(None, notes)), _list_names(made_body), refusals)
    contents.workloads.append(manifest)


def _add_other(contents: Found, body: dict[str, Any]) -> None:
    """Add an object of a kind that gets no pools, and why where that is not plain."""
    asks = "" if body["kind"] in _RUNTIMES else find_requests(body)
    contents.unserved = contents.unserved or bool(asks)
    metadata = body.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    shown = f"{body['kind'][:_SHOWN_MAX]} {str(name)[:_SHOWN_MAX]}".strip()
    if any(name == body["kind"] for name, _ in _OBJECTS):
        shown += f" (its apiVersion is {body['apiVersion'][:_SHOWN_MAX]})"
    if body["kind"] == "ProvisioningRequest":
        shown += " (left to GKE: queued provisioning)"
    if asks:
        shown += f" (asks for accelerators ({asks}), but no pools are made for this kind)"
    contents.others.append(shown)
    _add_defined(contents, body)


def _add_idle(contents: Found, body: Json, workload: WorkloadView) -> None:
    """Add why a workload gets no pools."""
    asks = find_requests(body)
    contents.unserved = contents.unserved or bool(asks)
    why = "needs no accelerators" if body.get("spec") else "has no spec"
    if asks:
        why = f"asks for accelerators ({asks}), but for no {_RESOURCES} in the limits of a container"
    templates = [*(group.template for group in workload.groups), *workload.templates.values()]
    if any(each.claims_devices for each in templates):
        why += "; what it asks for by resourceClaims gets no pools: for TPUs or GPUs, "
        why += f"request {_RESOURCES} in the limits of a container instead"
    contents.others.append(f"{workload.kind} {workload.name} ({why})")


def _add_defined(contents: Found, body: dict[str, Any]) -> None:
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        home, name = metadata.get("namespace") or "default", metadata.get("name")
        if isinstance(home, str) and isinstance(name, str):
            contents.defined[body["kind"], home, name] = body


def _list_names(body: Json) -> tuple[Named, ...]:
    """Return the service accounts and claims of a workload's pods, and its queue."""
    home, queue = body["metadata"]["namespace"], body["metadata"].get("labels", {}).get(_QUEUE)
    contents = [
        (kind, home, name) for kind, key in _NAMED.items() for name in find_texts(body, key) if name != "default"
    ]
    return (*contents, ("LocalQueue", home, queue)) if queue else tuple(contents)


def _check_version(body: dict[str, Any], kind: Kind | Maker) -> None:
    if body["apiVersion"].rpartition("/")[2] not in kind.versions:
        prefix = f"{kind.group}/" if kind.group else ""
        valid = ", ".join(f"{prefix}{each}" for each in kind.versions)
        raise WrongField("apiVersion", body["apiVersion"], f"{valid} for a {kind.name}")


def _read_metadata(body: dict[str, Any]) -> dict[str, Any]:
    metadata = body.get("metadata", {})
    if not isinstance(metadata, dict):
        raise WrongField("metadata", metadata, "an object")
    named = {**metadata, "namespace": metadata.get("namespace") or "default"}
    prefix = metadata.get("generateName")
    if not metadata.get("name") and isinstance(prefix, str) and prefix:
        named["name"] = prefix[:_PREFIX_MAX] + GENERATED
    if not named.get("name"):
        raise WrongField("metadata.name", None, "name or generateName")
    for each in ("name", "namespace"):
        if not isinstance(named[each], str) or not _NAME.fullmatch(named[each]):
            raise WrongField(f"metadata.{each}", named[each], _VALID_NAME)
    return named


def _describe_queue(body: Json, workload: WorkloadView) -> str:
    """Return which queue holds a workload: Kueue's webhook suspends it, or holds its pods.

    https://kueue.sigs.k8s.io/docs/tasks/run/jobs/
    """
    queue = body["metadata"].get("labels", {}).get(_QUEUE)
    if not queue or workload.suspended:
        return ""
    held = f"its label {_QUEUE} lets Kueue hold it until the queue {queue} admits it"
    return f"{held}; its pools are created then, or at once where Kueue does not serve this kind"
