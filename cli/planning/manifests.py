"""Reads the workloads of manifest files, and names file and document of what cannot be read.

An error in one document does not stop the others. An object that creates workloads, for example a
CronJob, is replaced by these workloads.
"""

from __future__ import annotations

import glob
import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cli.exit_codes import BadInput
from cli.planning.checks import (
    NotText,
    WrongField,
    check_object,
    find_near_key,
    find_requests,
    find_texts,
    list_refusals,
    without_nulls,
)
from cli.planning.makers import GENERATED, MAKERS, RUNTIMES, Made
from cli.planning.manifest_yaml import is_list, read_documents
from shared.edges.pods import read_workload
from shared.kinds.objects import UnexpectedValue
from shared.kinds.table import KINDS, get_kind
from shared.model.errors import ProvisionerError
from shared.model.labels import GPU_RESOURCE, TPU_RESOURCE
from shared.needs.refusals import find_other_server

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from cli.planning.makers import Maker
    from cli.planning.manifest_yaml import Document
    from shared.kinds.kind import Json, Kind
    from shared.model.errors import Rejected
    from shared.model.workloads import WorkloadView

_SUFFIXES = (".yaml", ".yml", ".json")
_VALID = "a YAML or JSON file, a folder, a pattern, or -"
_CHARACTERS_MAX = 10_000_000
_PREFIX_MAX = 58
"""Kubernetes cuts a generateName to this length:
https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apiserver/pkg/storage/names/generate.go."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_VALID_NAME = "at most 253 lower-case letters, digits, '-' and '.', the first and last a letter or digit"
_VARIABLE = re.compile(r"\$\{|\$[A-Za-z_]|<[A-Za-z_ -]+>|\{\{")
_SHOWN_MAX, _SHOWN_PATH_MAX, _SHOWN_TEXT_MAX = 60, 300, 1_000
_LIST_DEPTH_MAX = 50
_QUEUE = "kueue.x-k8s.io/queue-name"
_PROVISIONING = "provreq.kueue.x-k8s.io/"
"""The prefix of annotations that Kueue passes on to the ProvisioningRequest of a workload:
https://kueue.sigs.k8s.io/docs/concepts/admission_check/provisioning_request/."""
_BY_CLAIMS = (
    "; what it asks for by resourceClaims gets no pools: for TPUs or GPUs, request "
    f"{TPU_RESOURCE} or {GPU_RESOURCE} in the limits of a container instead"
)
_RUNTIMES = ("TrainingRuntime", "ClusterTrainingRuntime")
"""What TrainJobs are made from; they ask for nothing themselves."""
T = TypeVar("T", "Kind", "Maker")


Named = tuple[str, str, str]
"""Kind, namespace and name of an object."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object is."""

    file: str
    document: int
    """The first one is 1."""
    line: int
    """In which its document begins; the first line is 1."""
    document_text: Document | None = field(default=None, repr=False, compare=False)
    path: str = ""
    """Of the object in its document, if that is a list, for example ``items[2].``."""

    def explain(self, error: Exception) -> str:
        """Return what an error says of the object, with the line of a field that it names."""
        place = None
        if isinstance(error, WrongField) and self.document_text:
            place = self.document_text.find(self.path + error.field)
        if place is None:
            return str(error)
        line, written = place
        return f"line {line}, {error.show(written) if isinstance(error, NotText) else error}"

    def __str__(self) -> str:
        return f"{self.file}, document {self.document} (line {self.line})"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One workload, and where it comes from."""

    where: Place
    workload: WorkloadView
    named: Named
    """The object of the file that it is, or that makes it."""
    notes: tuple[str, ...] = ()
    """What the author should know that no slice of it says."""
    names: tuple[Named, ...] = ()
    """What it names and the cluster must have."""
    refusals: tuple[Rejected, ...] = ()
    """Why Kubernetes refuses it."""
    needs: tuple[str, ...] = ()
    """What of it the manifests do not have, in words."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one object, so that it is not planned."""

    where: Place
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


@dataclass(slots=True)
class Found:
    """What some files hold."""

    workloads: list[Manifest] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """Objects for which nothing is planned, as ``Kind name``, with the reason where that is not
    plain."""
    problems: list[Problem] = field(default_factory=list)
    unserved: bool = False
    """Something else asks for accelerators."""
    defined: dict[Named, dict[str, Any]] = field(default_factory=dict)
    """All objects so far, but those whose names are generated."""
    late: list[tuple[Place, dict[str, Any]]] = field(default_factory=list)
    """They are read last, because what they are made from may come later."""


def read_manifests(paths: Iterable[str], *, recursive: bool = False) -> Found:
    """Return the workloads of files, folders and patterns; ``-`` is standard input."""
    found = Found()
    for path in paths:
        for name, text in read_texts(path, recursive=recursive):
            _add(found, name, text)
    runtimes = [each for own, each in found.defined.items() if own[0] in _RUNTIMES]
    for where, body in found.late:
        _add_object(found, where, body | {RUNTIMES: runtimes})
    if not (found.workloads or found.others or found.problems):
        valid = ", ".join(f"{kind.name} of {kind.group}" if kind.group else kind.name for kind in KINDS)
        raise BadInput(f"{', '.join(paths)}: contains no workload (found: nothing); valid: {valid}")
    found.workloads = [_tell_needs(each, found.defined) for each in found.workloads]
    return found


def _tell_needs(manifest: Manifest, defined: Collection[Named]) -> Manifest:
    absent = sorted(set(manifest.names).difference(defined))
    return replace(manifest, needs=tuple(f"the {kind} {name} of namespace {home}" for kind, home, name in absent))


def read_texts(path: str, *, recursive: bool = False) -> Iterator[tuple[str, str]]:
    """Yield name and text of each file of a path, a folder or a pattern."""
    if path == "-":
        yield "standard input", sys.stdin.read()
        return
    name = path
    try:
        for file in _list_files(path, recursive=recursive):
            name = str(file)
            yield name, file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", "") or "it is not UTF-8 text"
        raise BadInput(f"{name[:_SHOWN_PATH_MAX]}: cannot be read: {why}; valid: {_VALID}") from error


def _list_files(path: str, *, recursive: bool) -> list[Path]:
    if not path or "\0" in path:
        raise BadInput(f"FILES: is no path (got {path!r}); valid: {_VALID}")
    home = Path(path)
    if home.is_dir():
        inside = home.rglob("*") if recursive else home.iterdir()
        files = sorted(each for each in inside if each.suffix in _SUFFIXES and each.is_file())
        if not files:
            raise BadInput(f"{path}: this folder contains no manifest; valid: {', '.join(_SUFFIXES)} files")
        return files
    if not home.exists() and glob.has_magic(path):
        named = glob.glob(path, recursive=True)  # noqa: PTH207 -- a pattern may begin with a folder or with /
        files = sorted(each for each in map(Path, named) if each.is_file())
        if not files:
            raise BadInput(f"{path}: no file fits this pattern; valid: a pattern like 'manifests/**/*.yaml'")
        return files
    return [home]


def _add(found: Found, name: str, text: str) -> None:
    if len(text) > _CHARACTERS_MAX:
        raise BadInput(f"{name}: is too long ({len(text)} characters); valid: at most {_CHARACTERS_MAX}")
    for number, document in enumerate(read_documents(text), start=1):
        where = Place(name, number, document.line, document)
        if document.problem:
            found.problems.append(Problem(where, document.problem))
        else:
            _add_object(found, where, document.body)


def show_line(text: str) -> str:
    """Return a text that a file holds or explains, as one line for a terminal."""
    shown = " ".join(text[:_SHOWN_TEXT_MAX].split())
    return shown if shown.isprintable() else shown.encode("unicode_escape").decode()


def _add_object(found: Found, where: Place, body: Any, depth: int = 0) -> None:
    """Add an object, or the items of a list; what is wrong with it becomes a problem."""
    if isinstance(body, dict) and not (body.get("kind") or body.get("apiVersion")):
        found.others.append(show_line(f"{where} (no Kubernetes object: it has neither kind nor apiVersion)"))
        return
    try:
        _check_identity(body)
        if is_list(body):
            _add_items(found, where, body, depth)
        else:
            _add_one(found, where, without_nulls(body))
    except (WrongField, UnexpectedValue, ProvisionerError) as error:
        found.problems.append(Problem(where, show_line(where.explain(error))))
    except RecursionError:
        found.problems.append(Problem(where, "is nested too deeply; valid: a Kubernetes object"))


def _add_items(found: Found, where: Place, body: dict[str, Any], depth: int) -> None:
    items = [] if body.get("items") is None else body["items"]
    if not isinstance(items, list) or depth >= _LIST_DEPTH_MAX:
        raise WrongField("items", items, "a list of objects, not nested deeply")
    kind = body["kind"].removesuffix("List")
    type_meta = {"kind": kind, "apiVersion": body["apiVersion"]} if kind else {}
    for number, item in enumerate(items):
        whole = {**type_meta, **item} if isinstance(item, dict) else item
        _add_object(found, replace(where, path=f"{where.path}items[{number}]."), whole, depth + 1)


def _check_identity(body: Any) -> None:
    if not isinstance(body, dict):
        raise WrongField("the document", body, "a Kubernetes object")
    fields = ("kind",) if body.get("kind") == "List" else ("kind", "apiVersion")
    for each in fields:
        if not body.get(each):
            raise WrongField(each, None, "a Kubernetes object")
        if not isinstance(body[each], str):
            raise WrongField(each, body[each], "a text")


def _add_one(found: Found, where: Place, body: dict[str, Any]) -> None:
    maker, kind = _find(body, MAKERS), _find(body, KINDS)
    if maker is None and kind is None:
        _add_other(found, body)
    elif maker and maker.late and RUNTIMES not in body:
        found.late.append((where, body))
    else:
        _check_version(body, maker, kind)
        check_object({key: value for key, value in body.items() if key != RUNTIMES})
        _add_made(found, where, body, maker)


def _add_made(found: Found, where: Place, body: dict[str, Any], maker: Maker | None) -> None:
    """Add a workload, or the one that an object makes."""
    own_body = {**body, "metadata": _read_metadata(body)}
    named = (body["kind"], own_body["metadata"]["namespace"], own_body["metadata"]["name"])
    _replace_earlier(found, named)
    _add_defined(found, body)
    made = maker.make(own_body) if maker else Made(own_body, "")
    makes = f"{maker.name} {named[2]}" if maker else ""
    if made.body is None:
        found.others.append(f"{makes} ({show_line(made.note)})")
        found.unserved = True
        return
    workload = read_workload(get_kind(made.body["kind"]), made.body)
    notes = tuple(filter(None, (makes and f"made by {makes}", made.note)))
    refusals = tuple(list_refusals(made.body if RUNTIMES in body else body))
    _add_workload(found, Manifest(where, workload, named, notes, _list_names(made.body), refusals), made.body)


def _add_other(found: Found, body: dict[str, Any]) -> None:
    """Add an object of a kind that gets no pools."""
    asks = "" if body["kind"] in _RUNTIMES else find_requests(body)
    found.unserved = found.unserved or bool(asks)
    found.others.append(_describe_other(body, asks))
    _add_defined(found, body)


def _replace_earlier(found: Found, named: Named) -> None:
    """Drop the workloads of earlier objects of the same name."""
    for each in [each for each in found.workloads if each.named == named] if named in found.defined else ():
        found.others.append(show_line(f"{named[0]} {named[2]} ({each.where}: a later one replaces it)"))
        found.workloads.remove(each)


def _add_workload(found: Found, manifest: Manifest, body: Json) -> None:
    """Add a workload that wants accelerators, and tell any other."""
    workload = manifest.workload
    asking = [group.template for group in workload.groups if group.template.wants_accelerator]
    if asking:
        queued = () if all(map(find_other_server, asking)) else _read_queue(body, workload)
        found.workloads.append(replace(manifest, notes=(*manifest.notes, *queued)))
        return
    asks = find_requests(body)
    found.unserved = found.unserved or bool(asks)
    found.others.append(f"{workload.kind} {workload.name} ({_explain_none(body, workload, asks)})")


def _explain_none(body: Json, workload: WorkloadView, asks: str) -> str:
    """Return why a workload gets no pools."""
    why = "needs no accelerators" if body.get("spec") else "has no spec"
    if asks:
        resources = f"{TPU_RESOURCE} or {GPU_RESOURCE}"
        why = f"asks for accelerators ({asks}), but for no {resources} in the limits of a container"
    templates = [*(group.template for group in workload.groups), *workload.templates.values()]
    near = next(filter(None, map(find_near_key, templates)), None)
    if any(each.claims_devices for each in templates):
        why += _BY_CLAIMS
    if near:
        why += f"; but no node has the label {near[0]} that it selects: is it {near[1]}?"
    return why


def _add_defined(found: Found, body: dict[str, Any]) -> None:
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        home, name = metadata.get("namespace") or "default", metadata.get("name")
        if isinstance(home, str) and isinstance(name, str):
            found.defined[body["kind"], home, name] = body


def _list_names(body: Json) -> tuple[Named, ...]:
    """Return the service accounts and claims of a workload's pods, and its queue."""
    home, queue = body["metadata"]["namespace"], body["metadata"].get("labels", {}).get(_QUEUE)
    found = [
        ("ServiceAccount", home, each) for each in find_texts(body, "serviceAccountName") if each != "default"
    ]
    found += [("PersistentVolumeClaim", home, each) for each in find_texts(body, "claimName")]
    return (*found, ("LocalQueue", home, queue)) if queue else tuple(found)


def _find(body: dict[str, Any], kinds: Iterable[T]) -> T | None:
    """Return the kind of an object, whatever its version."""
    group = body["apiVersion"].rpartition("/")[0]
    return next((kind for kind in kinds if (kind.name, kind.group) == (body["kind"], group)), None)


def _check_version(body: dict[str, Any], *kinds: Kind | Maker | None) -> None:
    for kind in kinds:
        if kind and body["apiVersion"].rpartition("/")[2] not in kind.versions:
            prefix = f"{kind.group}/" if kind.group else ""
            valid = ", ".join(f"{prefix}{each}" for each in kind.versions)
            raise WrongField("apiVersion", body["apiVersion"], f"{valid} for a {kind.name}")


def _describe_other(body: dict[str, Any], asks: str) -> str:
    """Return an object for which nothing is planned, and why where that is not plain."""
    metadata = body.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    shown = f"{body['kind'][:_SHOWN_MAX]} {str(name)[:_SHOWN_MAX]}".strip()
    if body["kind"] in {*(kind.name for kind in KINDS), *(maker.name for maker in MAKERS)}:
        shown += f" (its apiVersion is {body['apiVersion'][:_SHOWN_MAX]})"
    if body["kind"] == "ProvisioningRequest":
        shown += " (left to GKE: queued provisioning)"
    if asks:
        shown += f" (asks for accelerators ({asks}), but no pools are made for this kind)"
    return show_line(shown)


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
        value = named[each]
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            fill = isinstance(value, str) and _VARIABLE.search(value)
            advice = "a manifest whose variables are replaced, for example by envsubst; " if fill else ""
            raise WrongField(f"metadata.{each}", value, f"{advice}{_VALID_NAME}")
    return named


def _read_queue(body: Json, workload: WorkloadView) -> tuple[str, ...]:
    """Return what a queue of Kueue means for a workload.

    Kueue's webhook suspends it, or holds its pods, until the queue admits it:
    https://kueue.sigs.k8s.io/docs/tasks/run/jobs/.
    """
    queue = body["metadata"].get("labels", {}).get(_QUEUE)
    asked = sorted(key for key in body["metadata"].get("annotations", {}) if key.startswith(_PROVISIONING))
    notes = [
        f"its annotation {key} is for a ProvisioningRequest of Kueue; if its queue makes one, GKE provides the "
        "nodes and these pools are not created"
        for key in asked[:1]
    ]
    if queue and not workload.suspended:
        held = f"its label {_QUEUE} lets Kueue hold it until the queue {queue} admits it"
        notes.append(f"{held}; its pools are created then, or at once where Kueue does not serve this kind")
    return tuple(notes)
