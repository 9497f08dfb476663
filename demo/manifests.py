"""Manifests of a run: read from files and folders, and created as ``kubectl create`` does.

Documents, lists and objects of any kind are read. Everything that is wrong is said with the file,
the number of the document and the field; nothing is created then.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx

from cli.exit_codes import BadInput
from cli.planning.manifest_yaml import is_list, read_documents
from cli.planning.manifests import read_texts
from cli.planning.objects import MAKERS
from shared.kinds.table import KINDS
from standins.kit.kubernetes import Discovery, Json, open_client

APPLY_AFTER = "local.tpu-provisioner/apply-after"
"""An annotation: the workload is created when that of this name is over."""
_WORKLOADS = {*(each.name for each in KINDS), *(each.name for each in MAKERS)}
_LIST_DEPTH_MAX = 50
_CALL_SECONDS_MAX = 20.0
_WRITTEN_BY_SERVER = ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields")


class BadManifest(Exception):
    """What was given cannot be run; the text names the file, the document and the field."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a manifest, and its file and place."""

    path: str
    number: int
    body: Json

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.body["kind"])

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
    def is_workload(self) -> bool:
        """Whether it makes pods that may need node pools."""
        return self.kind in _WORKLOADS

    @property
    def after(self) -> str:
        """The workload that has to be over before this one is created, or nothing."""
        annotations = self.body["metadata"].get("annotations")
        return str(annotations.get(APPLY_AFTER) or "") if isinstance(annotations, dict) else ""

    @property
    def where(self) -> str:
        """The file and the number of the document, for messages."""
        return f"{self.path}, document {self.number}"


def load(paths: Iterable[str]) -> list[Document]:
    """Return every document of some files and folders, in their order.

    Raises BadManifest: something is missing or wrong, or there is no workload at all.
    """
    try:
        texts = dict(text for path in paths for text in read_texts(path))
    except BadInput as error:
        raise BadManifest(str(error)) from error
    documents = [document for name, text in texts.items() for document in _read(name, text)]
    if not any(document.is_workload for document in documents):
        kinds = ", ".join(sorted(document.kind for document in documents)) or "no objects"
        valid = ", ".join(each.name for each in KINDS)
        raise BadManifest(f"{', '.join(texts)}: contains no workload (found: {kinds}); valid: {valid}")
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
    metadata = body.get("metadata") if isinstance(body, dict) else None
    texts: tuple[object, ...] = ("",)
    if isinstance(metadata, dict):
        texts = (body.get("apiVersion"), body.get("kind"), metadata.get("name") or metadata.get("generateName"))
    if not all(isinstance(each, str) and each for each in texts):
        valid = "texts in apiVersion, kind and metadata.name (or generateName)"
        raise BadManifest(f"{where}: is not an object (got {str(body)[:60]!r}); valid: {valid}")


class Applier:
    """Creates objects in one cluster, as the administrator of a kubeconfig."""

    def __init__(self, kubeconfig: str) -> None:
        self._client = open_client(kubeconfig, timeout_seconds=_CALL_SECONDS_MAX)
        self._discovery = Discovery(self._client)

    def create(self, documents: Iterable[Document]) -> tuple[list[Document], list[str]]:
        """Create everything; return what was created, as it is called there, and notes for people.

        Workloads come last, so that what they refer to is there. Other objects that exist already
        are left as they are; kinds that the cluster does not serve are skipped. Both are noted.

        Raises BadManifest: the API refused an object; its own words are in the text.
        """
        notes: list[str] = []
        ordered = sorted(documents, key=_order)
        for name in dict.fromkeys(document.namespace for document in ordered):
            answer = self._client.post("/api/v1/namespaces", json={"metadata": {"name": name}})
            if answer.is_error and answer.status_code != httpx.codes.CONFLICT:
                raise BadManifest(f"metadata.namespace: the cluster refuses {name!r}: {_read_message(answer)}")
        created = [(document, self._create(document, notes)) for document in ordered]
        return [replace(each, body=each.body | {"metadata": own}) for each, own in created if own], notes

    def read(self, document: Document) -> Json | None:
        """Return an object as it is now, or None if it is gone."""
        answer = self._client.get(self._discovery.find(document.body))
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        body: Json = answer.raise_for_status().json()
        return body

    def delete(self, document: Document) -> None:
        """Delete an object in kubectl's background mode. One that is gone is no error."""
        path = self._discovery.find(document.body)
        answer = self._client.delete(path, params={"propagationPolicy": "Background"})
        if answer.status_code != httpx.codes.NOT_FOUND:
            answer.raise_for_status()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _create(self, document: Document, notes: list[str]) -> Json | None:
        """Return the metadata of a new object; None where nothing was created."""
        path, what = self._discovery.find_list(document.body), f"{document.kind} {document.name}"
        if not path:
            notes.append(f"{document.where}: skipped {what}: the local cluster does not serve it")
            return None
        answer = self._client.post(path, json=_as_new(document.body))
        if answer.status_code == httpx.codes.CONFLICT and not document.is_workload:
            if document.kind != "Namespace":
                notes.append(f"{document.where}: {what} exists already and is not changed")
            return None
        if answer.is_error:
            raise BadManifest(f"{document.where}: the cluster refuses the object: {_read_message(answer)}")
        metadata: Json = answer.json()["metadata"]
        return metadata


def _as_new(body: Json) -> Json:
    """Return an object as ``kubectl get`` shows it, without what only the API server writes."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in _WRITTEN_BY_SERVER}
    return {key: value for key, value in body.items() if key != "status"} | {"metadata": metadata}


def _order(document: Document) -> int:
    if document.is_workload:
        return 2
    return 0 if document.kind in ("Namespace", "CustomResourceDefinition") else 1


def _read_message(answer: httpx.Response) -> str:
    try:
        message = answer.json().get("message")
    except ValueError:
        message = None
    return str(message or f"HTTP {answer.status_code}: {answer.text[:200]}")
