"""A stand-in for GKE's Ray TPU webhook, called over TLS: what it adds to tell slices apart.

That is the label `replicaIndex`, where KubeRay gives no indexes of its own, and the affinities of
replicas of several hosts. It counts as the original does
(https://github.com/ai-on-gke/kuberay-tpu-webhook): the lowest replica that has fewer pods than
hosts, else one as high as there are replicas. Environment, host names and the check of RayClusters
are left out; nothing here reads them.
"""

import base64
import json
import ssl
import threading
from collections import Counter
from typing import Any, Self

from standins.controlplane.plane import ControlPlane
from standins.kit.local_answers import Answer, Asked, LocalAnswers
from tests.lives.jobset_bodies import HOSTS, TOPOLOGY

Json = dict[str, Any]
REPLICA_INDEX = "replicaIndex"
_CLUSTER, _GROUP = "ray.io/cluster", "ray.io/group"
_REPLICA_NAME, _HOST_INDEX = "ray.io/worker-group-replica-name", "ray.io/replica-host-index"
_POOL = "cloud.google.com/gke-nodepool"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NAME = "ray-tpu-webhook"
_PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class RayWebhook(LocalAnswers):
    """The webhook of one control plane, in force while the context lasts."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._one_at_a_time = threading.Lock()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(plane.layout.keys / "tls.crt", plane.layout.keys / "tls.key")
        super().__init__(self._review, tls=context)

    def __enter__(self) -> Self:
        super().__enter__()
        self._plane.apply([self._configuration()])
        return self

    def __exit__(self, *given: object) -> None:
        self._plane.api.delete(f"{_PATH}/{_NAME}")
        super().__exit__(*given)

    def _review(self, asked: Asked) -> Answer:
        """Answer a review: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers."""
        review = json.loads(asked.body)
        request = review["request"]
        patch = self.change(request["object"], request["namespace"])
        response: Json = {"uid": request["uid"], "allowed": True}
        if patch:
            found_answer = base64.b64encode(json.dumps(patch).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": found_answer}
        answer = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        return Answer(200, json.dumps(answer).encode())

    def change(self, pod: Json, namespace: str) -> list[Json]:
        """Return the JSON patch for a pod before its creation; webhook calls come one by one."""
        chips = [each.get("resources", {}).get("limits", {}).get("google.com/tpu") for each in _containers(pod)]
        if not any(chips):
            return []
        answer = pod["metadata"]["labels"]
        hosts = HOSTS[pod["spec"]["nodeSelector"][TOPOLOGY]]
        patch: list[Json] = []
        if _HOST_INDEX in answer:
            key, value = _REPLICA_NAME, answer[_REPLICA_NAME]
        else:
            with self._one_at_a_time:
                key, value = REPLICA_INDEX, f"{answer[_GROUP]}-{self._choose(answer, namespace, hosts)}"
            patch.append({"op": "add", "path": f"/metadata/labels/{REPLICA_INDEX}", "value": value})
        if hosts > 1:
            affinity = pod["spec"].get("affinity", {}) | _keep_apart(answer[_CLUSTER], key, value)
            patch.append({"op": "add", "path": "/spec/affinity", "value": affinity})
        return patch

    def _choose(self, pod_labels: dict[str, str], namespace: str, hosts: int) -> int:
        selector = {
            "labelSelector": f"{_CLUSTER}={pod_labels[_CLUSTER]},{_GROUP}={pod_labels[_GROUP]},{REPLICA_INDEX}"
        }
        found = self._plane.api.get(f"/api/v1/namespaces/{namespace}/pods", params=selector).json()["items"]
        live = [each["metadata"] for each in found if "deletionTimestamp" not in each["metadata"]]
        pods = Counter(int(each["labels"][REPLICA_INDEX].rpartition("-")[2]) for each in live)
        return min((index for index, count in pods.items() if count < hosts), default=len(pods))

    def _configuration(self) -> Json:
        authority = base64.b64encode(self._plane.layout.authority.read_bytes()).decode()
        webhook = {
            "name": "ray.webhook.test",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": f"{self.url}/mutate", "caBundle": authority},
            "objectSelector": {"matchLabels": {"app.kubernetes.io/name": "kuberay"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": _NAME},
            "webhooks": [webhook],
        }


def _containers(pod: Json) -> list[Json]:
    return list(pod["spec"]["containers"])


def _keep_apart(cluster: str, key: str, value: str) -> Json:
    """Return the affinities: a replica in one pool, without other replicas or RayClusters."""

    def term(*expressions: Json, **fields: Json) -> Json:
        return {"topologyKey": _POOL, "labelSelector": {"matchExpressions": list(expressions)}} | fields

    def says(name: str, operator: str, *values: str) -> Json:
        return {"key": name, "operator": operator} | ({"values": list(values)} if values else {})

    elsewhere = {"matchExpressions": [says("kubernetes.io/metadata.name", "NotIn", "kube-system")]}
    return {
        "podAffinity": {_REQUIRED: [term(says(key, "In", value), says(_CLUSTER, "In", cluster))]},
        "podAntiAffinity": {
            _REQUIRED: [
                term(says(key, "NotIn", value), says(_CLUSTER, "In", cluster)),
                term(says(_CLUSTER, "NotIn", cluster), says(key, "Exists"), namespaceSelector=elsewhere),
            ]
        },
    }
