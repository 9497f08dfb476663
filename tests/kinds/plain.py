"""Jobs, Deployments, StatefulSets and bare pods, with TPUs or GPUs.

What lives here: bodies. What happens to them is in the scenarios.
"""

from typing import Any

from tests.kinds.living import LONG, Life
from tests.lives.jobset_bodies import GRACE_SECONDS, LIFE, RUN_SECONDS, select

Json = dict[str, Any]
L4 = {"cloud.google.com/gke-accelerator": "nvidia-l4"}


def a_tpu_pod(life: str, topology: str, **spec: Any) -> Json:
    """Return the template of a pod that asks for a v6e host of a slice."""
    return _a_pod(life, select(topology), {"limits": {"google.com/tpu": 4}}, spec)


def a_gpu_pod(life: str, gpus: int = 1, selector: dict[str, str] | None = None, **spec: Any) -> Json:
    """Return the template of a pod that asks for GPUs; L4 unless it selects others."""
    resources = {"requests": {"cpu": "2"}, "limits": {"nvidia.com/gpu": gpus}}
    # GKE's API server adds this to pods that ask for GPUs; not every stand-in does.
    tolerated = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
    return _a_pod(life, selector or L4, resources, tolerated | spec)


def ask(template: Json, **requests: str) -> Json:
    """Return the template of a pod that requests this too."""
    resources = template["spec"]["containers"][0]["resources"]
    resources["requests"] = {**resources.get("requests", {}), **requests}
    return template


def _a_pod(life: str, selector: dict[str, str], resources: Json, spec: Json) -> Json:
    usual = {
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "nodeSelector": selector | {LIFE: life},
        "containers": [{"name": "worker", "image": "worker", "resources": resources}],
    }
    fields = {"labels": {"app": life}, "annotations": {RUN_SECONDS: str(LONG)}}
    return {"metadata": fields, "spec": usual | spec}


class Plain(Life):
    """One workload of such a kind; its pods run until somebody ends them."""

    def submit(self, template: Json, pods: int = 1, **spec: Any) -> None:
        """Create a Job, a Deployment or a StatefulSet of so many pods."""
        if self.kind == "Job":
            template["spec"]["restartPolicy"] = "Never"
            usual: Json = {"parallelism": pods, "completions": pods, "backoffLimit": 100}
        else:
            usual = {"replicas": pods, "selector": {"matchLabels": template["metadata"]["labels"]}}
        group = "batch/v1" if self.kind == "Job" else "apps/v1"
        body = {"apiVersion": group, "kind": self.kind, "metadata": {"name": self.name}}
        self.create(body | {"spec": usual | {"template": template} | spec})

    def submit_pod(self, template: Json, *owners: Json) -> None:
        """Create a bare pod of the life's own name."""
        template["spec"]["restartPolicy"] = "Never"
        template["metadata"] |= {"name": self.name, "ownerReferences": list(owners)}
        self.create({"apiVersion": "v1", "kind": "Pod"} | template)

    def finish(self) -> None:
        """Report that every pod has succeeded, and return once the Job is complete."""
        self.succeed()
        self.wait_condition("Complete")

    def expect_one_pool(self, pods: list[Json]) -> None:
        assert len(self.pools()) == 1
        assert self.pools_of(pods) == set(self.pools())
        assert self.accepted("CreateNodePool") == 1
