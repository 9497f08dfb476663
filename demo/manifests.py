"""Manifests of a run: read as ``tpu-provisioner plan`` does, created as ``kubectl create`` does.

Everything that is wrong is said with the file, the number of the document and the field; nothing is
created then.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import httpx

from cli.exit_codes import BadInput
from cli.planning.manifests import read_manifests
from cli.planning.objects import MAKERS
from shared.kinds.table import KINDS
from standins.kit.kubernetes import Discovery, Json, open_client

APPLY_AFTER = "local.tpu-provisioner/apply-after"
"""An annotation: the workload is created when that of this name is over."""
_WORKLOADS = {*(each.name for each in KINDS), *(each.name for each in MAKERS)}
_CALL_SECONDS_MAX = 20.0
_WRITTEN_BY_SERVER = ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields")


class BadManifest(Exception):
    """What was given cannot be run; the text names the file, the document and the field."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a manifest, and the file and place where it is, for messages."""

    where: str
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


def load(paths: list[str]) -> list[Document]:
    """Return every object of some files and folders, in their order.

    Raises BadManifest: something is missing or wrong, or there is no workload at all.
    """
    try:
        contents = read_manifests(paths)
    except BadInput as error:
        raise BadManifest(str(error)) from error
    documents = [Document(str(where), body) for where, body in contents.objects]
    bare = (each.where for each in documents if not isinstance(each.body.get("metadata"), dict))
    problems = [*contents.problems, *(f"{where}: metadata: is missing; valid: an object" for where in bare)]
    if problems:
        raise BadManifest("\n".join(problems))
    _check_workloads(paths, documents)
    return documents


def _check_workloads(paths: list[str], documents: list[Document]) -> None:
    if not any(document.is_workload for document in documents):
        kinds = ", ".join(sorted(document.kind for document in documents)) or "no objects"
        valid = ", ".join(each.name for each in KINDS)
        raise BadManifest(f"{', '.join(paths)}: contains no workload (found: {kinds}); valid: {valid}")


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
