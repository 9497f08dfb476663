"""Reads manifests: files, folders and globs, several documents, lists, objects of any kind.

Everything that is wrong is said with the file, the number of the document and the field; nothing is
applied then.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.exit_codes import BadInput
from cli.planning.makers import MAKERS
from cli.planning.manifest_yaml import is_list, read_documents
from cli.planning.manifests import read_texts
from shared.kinds.table import KINDS

JOBSET_GROUP = "jobset.x-k8s.io/"
APPLY_AFTER = "local.tpu-provisioner/apply-after"
"""An annotation of a JobSet: it is applied when the JobSet of that name is over."""
_LIST_DEPTH_MAX = 50


class BadManifest(Exception):
    """What was given cannot be run; the text names the file, the document and the field."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a manifest, and its file and place."""

    path: str
    number: int
    body: dict[str, Any]

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.body["kind"])

    @property
    def api_version(self) -> str:
        """The object's API version."""
        return str(self.body["apiVersion"])

    @property
    def namespace(self) -> str:
        """The object's namespace, ``default`` when it names none."""
        return str(self.body["metadata"].get("namespace") or "default")

    @property
    def name(self) -> str:
        """The object's name, or its prefix when the cluster makes the name."""
        metadata = self.body["metadata"]
        return str(metadata.get("name") or metadata.get("generateName"))

    @property
    def is_jobset(self) -> bool:
        """Whether it is a JobSet."""
        return self.kind == "JobSet" and self.api_version.startswith(JOBSET_GROUP)

    @property
    def is_workload(self) -> bool:
        """Whether it makes pods that may need node pools."""
        return self.kind in {*(each.name for each in KINDS), *(each.name for each in MAKERS)}

    @property
    def after(self) -> str:
        """The JobSet that has to be over before this one is applied, or nothing."""
        found = self.body["metadata"].get("annotations") if self.is_jobset else None
        return str(found.get(APPLY_AFTER) or "") if isinstance(found, dict) else ""

    @property
    def where(self) -> str:
        """The file and the number of the document, for messages."""
        return f"{self.path}, document {self.number}"


def load(patterns: Iterable[str]) -> list[Document]:
    """Return every document of the files that the patterns name, in their order.

    Args:
        patterns: Paths, globs or folders; one text may hold several, separated by spaces.

    Raises BadManifest: something is missing or wrong, or there is no workload at all.
    """
    pieces = [piece for text in patterns for piece in ([text] if Path(text).exists() else text.split())]
    try:
        texts = dict(text for piece in pieces for text in read_texts(piece))
    except BadInput as error:
        raise BadManifest(str(error)) from error
    documents = [document for name, text in texts.items() for document in _read(name, text)]
    if not any(document.is_workload for document in documents):
        kinds = ", ".join(sorted({document.kind for document in documents})) or "no objects"
        valid = ", ".join(each.name for each in KINDS)
        raise BadManifest(f"{', '.join(texts)}: contains no workload (found: {kinds}); valid: {valid}")
    _check_order(document for document in documents if document.is_jobset)
    return documents


def _read(name: str, text: str) -> Iterator[Document]:
    number = 0
    for position, document in enumerate(read_documents(text), start=1):
        if document.problem:
            raise BadManifest(f"{name}: {document.problem}")
        for each in _flatten(f"{name}, document {position}", document.body):
            number += 1
            _check_object(f"{name}, document {number}", each)
            yield Document(name, number, each)


def _flatten(where: str, body: Any, depth: int = 0) -> Iterator[Any]:
    """Yield an object, or the items of a list of any kind, without what is no Kubernetes object."""
    if isinstance(body, dict) and not (body.get("kind") or body.get("apiVersion")):
        return
    if not is_list(body):
        yield body
        return
    items = body.get("items")
    if not isinstance(items, list) or depth >= _LIST_DEPTH_MAX:
        problem = f"is not a list of objects, or nested deeply (got {str(items)[:60]!r})"
        raise BadManifest(f"{where}: items: {problem}")
    kind = body["kind"].removesuffix("List")
    type_meta = {"kind": kind, "apiVersion": body.get("apiVersion")} if kind else {}
    for item in items:
        yield from _flatten(where, type_meta | item if isinstance(item, dict) else item, depth + 1)


def _check_object(where: str, body: Any) -> None:
    if not isinstance(body, dict):
        raise BadManifest(
            f"{where}: is not an object (got {str(body)[:60]!r}); valid: a mapping with apiVersion and kind"
        )
    for field in ("apiVersion", "kind"):
        if not isinstance(body.get(field), str) or not body[field]:
            raise BadManifest(f"{where}: {field}: is missing or not a text (got {body.get(field)!r})")
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        raise BadManifest(f"{where}: metadata: is missing (got {metadata!r}); valid: a mapping with a name")
    if not isinstance(metadata.get("name") or metadata.get("generateName"), str):
        raise BadManifest(f"{where}: metadata.name: is missing; valid: name or generateName, as text")


def _check_order(jobsets: Iterable[Document]) -> None:
    earlier: set[tuple[str, str]] = set()
    for document in jobsets:
        named = str(document.body["metadata"].get("name") or "")
        if document.after and ((document.namespace, document.after) not in earlier or not named):
            names = ", ".join(name for namespace, name in sorted(earlier) if namespace == document.namespace)
            raise BadManifest(
                f"{document.where}: metadata.annotations {APPLY_AFTER}: names no JobSet before this one, or this"
                f" one has no name (got {document.after!r}); valid: {names or 'no such annotation'}"
            )
        earlier.add((document.namespace, named))
