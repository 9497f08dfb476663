"""Applies documents through the public Kubernetes API, as ``kubectl create`` would.

Which path a kind has is asked of the API itself (discovery), so any kind that the cluster serves
can be applied.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import httpx

from demo.loop.manifests import BadManifest, Document
from standins.kit.kubernetes import open_client

_CALL_SECONDS_MAX = 20.0
_WRITTEN_BY_SERVER = ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields")


@dataclass(frozen=True, slots=True)
class Applied:
    """What applying came to."""

    created: tuple[Document, ...]
    """What the cluster created, as it is called there."""
    notes: tuple[str, ...]
    """What a person should know about the rest."""


class Applier:
    """Creates objects in one cluster, as the administrator of a kubeconfig."""

    def __init__(self, kubeconfig: str) -> None:
        self._client = open_client(kubeconfig, timeout_seconds=_CALL_SECONDS_MAX)
        self._paths: dict[str, dict[str, str]] = {}
        """By API version and kind, with a place for the namespace."""

    def apply(self, documents: Iterable[Document]) -> Applied:
        """Create everything, the workloads last, so that what they refer to is there.

        Other objects that exist already are left as they are; kinds that the cluster does not serve
        are skipped. Both are noted.

        Raises BadManifest: the API refused an object; its own words are in the text.
        """
        notes: list[str] = []
        created: list[Document] = []
        ordered = sorted(documents, key=_order)
        for namespace in dict.fromkeys(document.namespace for document in ordered):
            self._create_namespace(namespace)
        for document in ordered:
            answer = self._create(document, notes)
            if answer:
                created.append(replace(document, body={**document.body, "metadata": answer["metadata"]}))
        return Applied(tuple(created), tuple(notes))

    def read(self, document: Document) -> dict[str, Any] | None:
        """Return an object as it is now, or None if it is gone."""
        answer = self._client.get(f"{self._find_path(document)}/{document.name}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        body: dict[str, Any] = answer.raise_for_status().json()
        return body

    def delete(self, document: Document) -> None:
        """Delete an object in kubectl's background mode. One that is gone is no error."""
        path = f"{self._find_path(document)}/{document.name}"
        answer = self._client.delete(path, params={"propagationPolicy": "Background"})
        if answer.status_code != httpx.codes.NOT_FOUND:
            answer.raise_for_status()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _create(self, document: Document, notes: list[str]) -> dict[str, Any] | None:
        path = self._find_path(document)
        if not path:
            notes.append(
                f"{document.where}: skipped {document.kind} {document.name}:"
                f" the local cluster does not serve {document.api_version} {document.kind}"
            )
            return None
        answer = self._client.post(path, json=_as_new(document.body))
        if answer.status_code == httpx.codes.CONFLICT and not document.is_workload:
            if document.kind != "Namespace":
                notes.append(
                    f"{document.where}: {document.kind} {document.name} exists already and is not changed"
                )
            return None
        if answer.is_error:
            raise BadManifest(f"{document.where}: the cluster refuses the object: {_message(answer)}")
        created: dict[str, Any] = answer.json()
        return created

    def _create_namespace(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        answer = self._client.post("/api/v1/namespaces", json=body)
        if answer.is_error and answer.status_code != httpx.codes.CONFLICT:
            raise BadManifest(f"metadata.namespace: the cluster refuses {name!r}: {_message(answer)}")

    def _find_path(self, document: Document) -> str:
        """Return the path of a document's collection; empty for a kind that is not served."""
        version = document.api_version
        if version not in self._paths:
            self._paths[version] = self._discover(version)
        return self._paths[version].get(document.kind, "").format(namespace=document.namespace)

    def _discover(self, version: str) -> dict[str, str]:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        answer = self._client.get(root)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return {}
        answer.raise_for_status()
        resources = [each for each in answer.json().get("resources", []) if "/" not in each["name"]]
        return {
            each["kind"]: f"{root}{'/namespaces/{namespace}' if each.get('namespaced') else ''}/{each['name']}"
            for each in resources
        }


def _as_new(body: dict[str, Any]) -> dict[str, Any]:
    """Return an object as ``kubectl get`` shows it, without what only the API server writes."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in _WRITTEN_BY_SERVER}
    return {key: value for key, value in body.items() if key != "status"} | {"metadata": metadata}


def _order(document: Document) -> int:
    if document.is_workload:
        return 2
    return 0 if document.kind in ("Namespace", "CustomResourceDefinition") else 1


def _message(answer: httpx.Response) -> str:
    try:
        message = answer.json().get("message")
    except ValueError:
        message = None
    return str(message or f"HTTP {answer.status_code}: {answer.text[:200]}")
