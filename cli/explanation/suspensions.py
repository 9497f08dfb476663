"""What a suspended workload waits for: who suspended it, if that is known, and who resumes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.edges.kubernetes import JsonObject
from shared.kinds.objects import list_suspend_writes, read_flag, read_text, read_texts
from shared.model.errors import NotFound

if TYPE_CHECKING:
    from shared.edges.kubernetes import KubernetesApi
    from shared.kinds.kind import Resource
_QUEUE_NAME = "kueue.x-k8s.io/queue-name"


def read_suspension(api: KubernetesApi, kind: Resource, namespace: str, name: str) -> str:
    """Return what a suspended workload waits for, as the end of a sentence; empty for any other.

    Kubernetes keeps the name of the program that last wrote ``spec.suspend``:
    https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management.
    """
    try:
        body = api.get(kind.path_of(namespace, name), JsonObject)
    except NotFound:
        return ""
    if not read_flag(body, "spec", "suspend"):
        return ""
    writers = [(read_text(each, "time"), read_text(each, "manager")) for each in list_suspend_writes(body)]
    by = f" by {writer}" if (writer := max(writers, default=("", ""))[1]) else ""
    resume = '{"spec":{"suspend":false}}'
    resumes = f"to resume it: kubectl patch {kind.plural} {name} -n {namespace} --type=merge -p '{resume}'"
    if queue := read_texts(body, "metadata", "labels").get(_QUEUE_NAME):
        resumes = f"Kueue resumes it when its queue {queue} admits it (kubectl describe workloads -n {namespace})"
    return f"is suspended{by}, so it needs no pools; {resumes}"
