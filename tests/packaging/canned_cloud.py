"""A Kubernetes API and a GKE API in one small server: one waiting slice, a record of every call.

For tests of whole processes only. The tests in tests/contract show what the real APIs do.
"""

import json
from typing import Any

from shared.kinds import jobset as jobset_keys
from shared.model import labels
from standins.kit.local_answers import Answer, Asked, LocalAnswers
from tests.builders import JOBSET_UID, POD_UID
from tests.loop.bodies import build_workload, list_templates

JOBSET = build_workload({"kind": "JobSet", "replicas": 2, "tpu": "4x4"}, "train")
JOBSET["metadata"] |= {"namespace": "default", "uid": JOBSET_UID}
(TEMPLATE,) = list_templates(JOBSET)
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "namespace": "default",
        "name": "train-slice-0-0-abcde",
        "uid": POD_UID,
        "labels": {jobset_keys.JOBSET_NAME_ON_POD: "train", labels.COMPLETION_INDEX: "0"},
        "ownerReferences": [{"kind": "Job", "name": "train-slice-0", "controller": True}],
    },
    "spec": TEMPLATE["spec"],
    "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
}
GETS = {
    "/api/v1/namespaces/default/pods/train-slice-0-0-abcde": POD,
    "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/train": JOBSET,
    "/api/v1/namespaces/default": {"metadata": {"name": "default", "uid": "of-default"}},
    "/api/v1/namespaces/kube-system": {"metadata": {"name": "kube-system", "uid": "of-the-cluster"}},
    "/api/v1/namespaces/tpu-provisioner": {"metadata": {"name": "tpu-provisioner", "uid": "of-ours"}},
    "/api/v1/pods": {"metadata": {}, "items": [POD]},
    "/api/v1/namespaces/default/pods": {"metadata": {}, "items": [POD]},
    "/api/v1/nodes": {"metadata": {}, "items": []},
    "/v1/projects/p/locations/us-east5/operations": {},
}


class CannedCloud(LocalAnswers):
    """Answers reads from `GETS`, a cluster by its name, no node pools, and 200 to every write."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.asked: list[tuple[str, str, dict[str, Any]]] = []

    def created_pools(self) -> list[dict[str, Any]]:
        return [
            body["nodePool"]
            for method, path, body in self.asked
            if path.endswith("/nodePools") and method == "POST"
        ]

    def _answer(self, asked: Asked) -> Answer:
        path = asked.path.partition("?")[0]
        self.asked.append((asked.method, path, json.loads(asked.body or b"{}")))
        found = {} if asked.method == "POST" or path.endswith("/nodePools") else GETS.get(path)
        if found is None and (name := path.partition("/clusters/")[2]).isidentifier():
            found = {"name": name}
        return Answer(404 if found is None else 200, json.dumps(found or {}).encode())
