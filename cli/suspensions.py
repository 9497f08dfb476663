"""What a suspended workload waits for: who suspended it, if that is known, and who resumes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.errors import NotFound
from shared.core.kinds.objects import read_flag, read_object, read_objects, read_text, read_texts
from shared.edges.kubernetes_objects import JsonObject

if TYPE_CHECKING:
    from shared.core.kinds.kind import Resource
    from shared.edges.kubernetes_api import KubernetesApi


def read_suspension(api: KubernetesApi, kind: Resource, namespace: str, name: str) -> str:
    """Return what a suspended workload waits for, as the end of a sentence; empty for any other.

    Kubernetes keeps the name of the program that last wrote ``spec.suspend``:
    https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management.

    Raises:
        ProvisionerError: the workload could not be read.
    """
    try:
        body = api.get(kind.path_of(namespace, name), JsonObject)
    except NotFound:
        return ""
    if not read_flag(body, "spec", "suspend"):
        return ""
    writers = [
        (read_text(each, "time"), read_text(each, "manager"))
        for each in read_objects(body, "metadata", "managedFields")
        if "f:suspend" in read_object(each, "fieldsV1", "f:spec")
    ]
    by = f" by {writer}" if (writer := max(writers, default=("", ""))[1]) else ""
    return f"is suspended{by}, so it needs no pools; {_tell_who_resumes(body, kind, namespace, name)}"


def _tell_who_resumes(body: JsonObject, kind: Resource, namespace: str, name: str) -> str:
    marked = read_texts(body, "metadata", "annotations") | read_texts(body, "metadata", "labels")
    if queue := marked.get(labels.QUEUE_NAME):
        return f"Kueue resumes it when its queue {queue} admits it (kubectl describe workloads -n {namespace})"
    if marked.get(labels.CAPACITY_FIRST) == "true":
        return f"its mark {labels.CAPACITY_FIRST} has no effect here, because the setting capacity_first is off"
    resume = '{"spec":{"suspend":false}}'
    return f"to resume it: kubectl patch {kind.plural} {name} -n {namespace} --type=merge -p '{resume}'"
