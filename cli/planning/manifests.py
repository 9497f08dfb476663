"""Reads the workloads of manifest files, and names file and document of what cannot be read.

An error in one document does not stop the others. An object that creates workloads, for example a
CronJob, is replaced by these workloads.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.exit_codes import BadInput
from cli.planning.manifest_yaml import Document, is_list, read_documents
from cli.planning.objects import (
    GENERATED,
    MAKERS,
    Made,
    Maker,
    WrongField,
    check_object,
    find_requests,
    list_refusals,
    walk,
    without_nulls,
)
from shared.edges.pods import read_workload
from shared.kinds.read import UnexpectedValue
from shared.kinds.table import KINDS, get_kind
from shared.model.errors import ProvisionerError
from shared.model.labels import GPU_RESOURCE, TPU_RESOURCE
from shared.model.messages import OBJECT_NAME
from shared.needs.templates import find_other_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shared.kinds.kind import Json, Kind
    from shared.model.errors import Rejected
    from shared.model.workloads import WorkloadView

_SUFFIXES = (".yaml", ".yml", ".json")
_VALID = "a YAML or JSON file, a folder, or -"
_PREFIX_MAX = 58
"""Kubernetes cuts a generateName to this length:
https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apiserver/pkg/storage/names/generate.go."""
_VALID_NAME = "at most 253 lower-case letters, digits, '-' and '.', the first and last a letter or digit"
_SHOWN_MAX, _SHOWN_PATH_MAX = 60, 300
_QUEUE = "kueue.x-k8s.io/queue-name"
_RESOURCES = f"{TPU_RESOURCE} or {GPU_RESOURCE}"
_RUNTIMES = ("TrainingRuntime", "ClusterTrainingRuntime")
"""What TrainJobs are made from; they ask for nothing themselves."""
_NAMED = {"serviceAccountName": "ServiceAccount", "claimName": "PersistentVolumeClaim"}
"""Fields of pods that name objects which must be there, and their kinds."""
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
    objects: list[tuple[Place, dict[str, Any]]] = field(default_factory=list)
    """All objects that are not wrong, planned or not."""
    defined: dict[Named, dict[str, Any]] = field(default_factory=dict)
    """All objects, but those whose names are generated."""


def read_manifests(paths: Iterable[str]) -> Found:
    """Return the workloads of files and folders; ``-`` is standard input."""
    objects = [each for path in paths for each in _read_objects(path)]
    # What an object makes may follow from objects that come later.
    contents = Found(defined=dict(_list_defined(body for _, body in objects)))
    for where, body in objects:
        _add_object(contents, where, body)
    if not (contents.workloads or contents.others or contents.problems):
        valid = ", ".join(kind.name for kind in KINDS)
        raise BadInput(f"{', '.join(paths)}: contains no workload (found: nothing); valid: {valid}")
    return contents


def _read_objects(path: str) -> Iterator[tuple[Place, Any]]:
    for name, text in read_texts(path):
        for number, document in enumerate(read_documents(text), start=1):
            yield from _list_objects(Place(name, number, document), document.body)


def _list_objects(where: Place, body: Any) -> Iterator[tuple[Place, Any]]:
    """Yield an object, or the items of a list, of which each has the list's kind and version."""
    items = (body["items"] or []) if is_list(body) and "items" in body else None
    if not isinstance(items, list):
        yield where, body
        return
    kind = body["kind"].removesuffix("List")
    type_meta = {"kind": kind, "apiVersion": body.get("apiVersion")} if kind else {}
    for number, item in enumerate(items):
        whole = {**type_meta, **item} if isinstance(item, dict) else item
        yield from _list_objects(replace(where, path=f"{where.path}items[{number}]."), whole)


def _list_defined(bodies: Iterable[Any]) -> Iterator[tuple[Named, dict[str, Any]]]:
    for body in bodies:
        metadata = body.get("metadata") if isinstance(body, dict) else None
        if isinstance(metadata, dict):
            kind, home, name = body.get("kind"), metadata.get("namespace") or "default", metadata.get("name")
            if isinstance(kind, str) and isinstance(home, str) and isinstance(name, str):
                yield (kind, home, name), body


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


def _add_object(contents: Found, where: Place, body: Any) -> None:
    """Add an object; what is wrong with it becomes a problem."""
    if where.document.problem:
        contents.problems.append(f"{where}: {where.document.problem}")
        return
    if isinstance(body, dict) and not (body.get("kind") or body.get("apiVersion")):
        contents.others.append(f"{where} (no Kubernetes object: it has neither kind nor apiVersion)")
        return
    try:
        _check_identity(body)
        _add_one(contents, without_nulls(body))
        contents.objects.append((where, body))
    except (WrongField, UnexpectedValue, ProvisionerError) as error:
        contents.problems.append(where.explain(error))
    except RecursionError:
        contents.problems.append(f"{where}: is nested too deeply; valid: a Kubernetes object")


def _check_identity(body: Any) -> None:
    if not isinstance(body, dict):
        raise WrongField("the document", body, "a Kubernetes object")
    if is_list(body):
        raise WrongField("items", body.get("items"), "a list of objects")
    for each in ("kind", "apiVersion"):
        if not body.get(each):
            raise WrongField(each, None, "a Kubernetes object")
        if not isinstance(body[each], str):
            raise WrongField(each, body[each], "a text")


def _add_one(contents: Found, body: dict[str, Any]) -> None:
    """Add a workload, or the one that an object makes, or why there is none that gets pools."""
    kind = _OBJECTS.get((body["kind"], body["apiVersion"].rpartition("/")[0]))
    if kind is None:
        _add_other(contents, body)
        return
    _check_version(body, kind)
    check_object(body)
    own_body = {**body, "metadata": _read_metadata(body)}
    if not isinstance(kind, Maker):
        _add_made(contents, body, Made(own_body, ""), "")
        return
    result, maker = kind.make(own_body, contents.defined), f"{kind.name} {own_body['metadata']['name']}"
    if result.body is None:
        contents.others.append(f"{maker} ({result.note})")
        contents.unserved = True
    else:
        _add_made(contents, body, result, f"made by {maker}")


def _add_made(contents: Found, body: Json, result: Made, by: str) -> None:
    """Add a workload, and what made it."""
    made_body = result.body or {}
    workload = read_workload(get_kind(made_body["kind"]), made_body)
    asking = [group.template for group in workload.groups if group.template.wants_accelerator]
    if not asking:
        _add_idle(contents, made_body, workload)
        return
    notes = [by, result.note]
    if not all(map(find_other_server, asking)):
        notes.append(_describe_queue(made_body, workload))
    refusals = tuple(list_refusals(body)) or tuple(list_refusals(made_body))
    manifest = Manifest(workload, tuple(filter(None, notes)), _list_names(made_body), refusals)
    contents.workloads.append(manifest)


def _add_other(contents: Found, body: dict[str, Any]) -> None:
    """Add an object of a kind that gets no pools, and why where that is not plain."""
    asks = "" if body["kind"] in _RUNTIMES else find_requests(body)
    contents.unserved |= bool(asks)
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


def _add_idle(contents: Found, body: Json, workload: WorkloadView) -> None:
    """Add why a workload gets no pools."""
    asks = find_requests(body)
    contents.unserved |= bool(asks)
    why = "needs no accelerators" if body.get("spec") else "has no spec"
    if asks:
        why = f"asks for accelerators ({asks}), but for no {_RESOURCES} in the limits of a container"
    templates = [*(group.template for group in workload.groups), *workload.templates.values()]
    if any(each.claims_devices for each in templates):
        why += "; what it asks for by resourceClaims gets no pools: for TPUs or GPUs, "
        why += f"request {_RESOURCES} in the limits of a container instead"
    contents.others.append(f"{workload.kind} {workload.name} ({why})")


def _list_names(body: Json) -> tuple[Named, ...]:
    """Return the service accounts and claims of a workload's pods, and its queue."""
    home, queue = body["metadata"]["namespace"], body["metadata"].get("labels", {}).get(_QUEUE)
    named = [(_NAMED[key], home, name) for _, key, name in walk(body) if key in _NAMED and isinstance(name, str)]
    named += [("LocalQueue", home, queue)] * bool(queue)
    return tuple(each for each in named if each[2] != "default")


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
        if not isinstance(named[each], str) or not OBJECT_NAME.fullmatch(named[each]):
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
