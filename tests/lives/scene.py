"""One namespace of a stack with one JobSet: what the script of a life does, awaits and asks.

What lives here: verbs. Which of them make up a life, and what must come of it, is in `scripts` and
`catalogue`.
"""

from typing import Any

from tests.lives.bindings import Binding, Bindings
from tests.lives.cloud import JSON_PATCH, Cloud, wait_for
from tests.lives.jobset_bodies import LIFE, alone

Json = dict[str, Any]

RUNNING, STOPPING, PROVISIONING = "RUNNING", "STOPPING", "PROVISIONING"
_TEMPLATE = "/spec/replicatedJobs/0/template/spec/template"
_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
_JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"


class Scene:
    """Where one life happens: a namespace with a JobSet, whose name its pools begin with."""

    def __init__(self, name: str, cloud: Cloud, bindings: Bindings) -> None:
        self.name, self.cloud, self._bindings = name, cloud, bindings
        self.namespace = f"life-{name}"
        self._faults: list[int] = []
        cloud.create_namespace(self.namespace)

    # --- what a script does

    def submit(self, body: Json) -> str:
        """Create the JobSet, its slices told from those of other lives, and return its UID."""
        return str(self.cloud.create(_JOBSETS.format(self.namespace), alone(body))["metadata"]["uid"])

    def delete(self, propagation: str = "Background") -> None:
        """Delete the JobSet."""
        self.cloud.delete(self._path, propagation)

    def suspend(self) -> None:
        """Suspend the JobSet; return once this is reported and its pods are terminating."""
        self.cloud.patch(self._path, {"spec": {"suspend": True}})
        self.wait_condition("Suspended")
        wait_for(f"{self.name}: pods end", lambda: all(_is_ending(pod) for pod in self.pods()))

    def resume(self, *, selectors: dict[str, str] | None = None, does: dict[str, str] | None = None) -> None:
        """Resume the JobSet and set selectors or work in the same write, as Kueue does."""
        edits = [{"op": "replace", "path": "/spec/suspend", "value": False}]
        if selectors is not None:
            wanted = selectors | {LIFE: self.name}
            edits.insert(0, {"op": "add", "path": f"{_TEMPLATE}/spec/nodeSelector", "value": wanted})
        if does is not None:
            edits.insert(0, {"op": "add", "path": f"{_TEMPLATE}/metadata/annotations", "value": does})
        self.cloud.patch(self._path, edits, JSON_PATCH)

    def finish(self, replicated_job: str) -> None:
        """Report that the pods of a replicated job have succeeded, as their kubelet would."""
        for pod in self.pods(labelSelector=f"{_REPLICATED_JOB}={replicated_job}"):
            self.cloud.succeed(self.namespace, pod["metadata"]["name"])

    def add_fault(self, switch: str, *, job: str = "", **fields: Any) -> int:
        """Set a fault for the pools of this life, or of one of its jobs; `clear` removes it."""
        number = self.cloud.add_fault(switch, pool=f"{self.name}-{job}*", **fields)
        self._faults.append(number)
        return number

    def take_seconds(self, virtual_seconds: float, operation: str = "create") -> None:
        """Let GKE take so long for each create, or delete, of this life's pools."""
        self.add_fault("duration", operation=operation, seconds=virtual_seconds)

    def controller_seconds(self, real_seconds: float) -> int:
        """Return the seconds to set in Kubernetes' controllers so that so many really pass."""
        return round(real_seconds * self.cloud.controller_speed)

    def clear_faults(self) -> None:
        """Take every fault of this life back."""
        while self._faults:
            self.cloud.clear_fault(self._faults.pop())

    # --- what it waits for

    def wait_running(self, count: int) -> list[Json]:
        """Return the pods once so many of them run."""
        return wait_for(f"{self.name}: {count} running pods", lambda: self._running(count))

    def wait_condition(self, name: str) -> Json:
        """Return the JobSet's condition once it is true."""
        return wait_for(f"{self.name}: {name}", lambda: self.condition(name))

    def wait_gone(self) -> None:
        """Return once there is no JobSet of that name."""
        wait_for(f"{self.name} gone", lambda: self.jobset() is None)

    def wait_no_pods(self) -> None:
        """Return once the namespace has no pods."""
        wait_for(f"{self.name}: no pods", lambda: not self.pods())

    def wait_no_pods_of(self, replicated_job: str) -> None:
        """Return once a replicated job has no pods."""
        selector = f"{_REPLICATED_JOB}={replicated_job}"
        wait_for(f"{self.name}: no pods of {replicated_job}", lambda: not self.pods(labelSelector=selector))

    def wait_pool(self, *statuses: str) -> str:
        """Return the name of a pool of this life once it has one of these statuses."""
        message = " or ".join(statuses)
        return wait_for(f"{self.name}: a pool that is {message}", lambda: self._pool_that_is(statuses))

    def wait_no_pools(self) -> None:
        """Return once GKE has no pool of this life, and Kubernetes none of their nodes.

        On a busy machine the fake GKE's minutes are over before it has closed the nodes: pods could
        still land.
        """
        wait_for(f"{self.name}: no pools", lambda: not self.pools())
        wait_for(f"{self.name}: no nodes", lambda: not self.nodes())

    def wait_closed(self, pool: str) -> None:
        """Return once no pod can be bound to a deleting pool: its nodes are cordoned or gone."""
        wait_for(f"{self.name}: {pool} takes no pods", lambda: not self._open_nodes(pool))

    def wait_call(self, method: str, **fields: str) -> None:
        """Return once a call about a pool of this life fits."""
        wait_for(
            f"{self.name}: {method} {fields}",
            lambda: any(fields.items() <= each.items() for each in self.calls(method)),
        )

    # --- what it asks

    def jobset(self) -> Json | None:
        """Return the JobSet as it is now."""
        return self.cloud.get(self._path)

    def status(self) -> Json:
        """Return the JobSet's status; it must exist."""
        found = self.jobset()
        assert found is not None, f"JobSet {self.namespace}/{self.name} is gone"
        status: Json = found.get("status", {})
        return status

    def condition(self, name: str) -> Json | None:
        """Return a condition of the JobSet if it is true."""
        found = (self.jobset() or {}).get("status", {}).get("conditions", ())
        return next((each for each in found if each["type"] == name and each["status"] == "True"), None)

    def end(self) -> str:
        """Return the JobSet's end: ``Completed``, ``Failed``, ``gone``, or ``unfinished``."""
        if self.jobset() is None:
            return "gone"
        return next((name for name in ("Completed", "Failed") if self.condition(name)), "unfinished")

    def pods(self, **params: str) -> list[Json]:
        """Return the pods of the namespace."""
        return self.cloud.items(f"/api/v1/namespaces/{self.namespace}/pods", **params)

    def jobs(self) -> list[str]:
        """Return the names of the Jobs of the namespace."""
        found = self.cloud.items(f"/apis/batch/v1/namespaces/{self.namespace}/jobs")
        return sorted(each["metadata"]["name"] for each in found)

    def events(self, reason: str) -> list[str]:
        """Return the messages of the Events with a reason."""
        found = self.cloud.items(f"/api/v1/namespaces/{self.namespace}/events")
        return [each["message"] for each in found if each["reason"] == reason]

    def pools(self) -> dict[str, str]:
        """Return the pools of this life that exist, with their status."""
        return {name: status for name, status in self.cloud.pools().items() if self._is_mine(name)}

    def nodes(self) -> list[str]:
        """Return the nodes that exist of any pool that was ever made for this life."""
        return self._bindings.standing(each.pool for each in self._bindings.hosts(self.namespace))

    def bindings(self) -> list[Binding]:
        """Return this life's bindings of pods so far, in order; waits for a watch that lags."""
        pods, nodes = self.pods(), self.cloud.items("/api/v1/nodes")
        wait_for(f"{self.name}: the watches", lambda: self._bindings.has_seen(nodes, pods))
        return self._bindings.of(self.namespace)

    def calls(self, method: str = "") -> list[Json]:
        """Return the calls about pools of this life, oldest first."""
        return [
            each for each in self.cloud.calls() if self._is_mine(each["pool"]) and method in ("", each["method"])
        ]

    def created(self) -> list[Json]:
        """Return the accepted creates, oldest first."""
        return [each for each in self.calls("CreateNodePool") if each["code"] == "OK"]

    @property
    def _path(self) -> str:
        return f"{_JOBSETS.format(self.namespace)}/{self.name}"

    def _is_mine(self, pool: str) -> bool:
        return pool.startswith(f"{self.name}-")

    def _running(self, count: int) -> list[Json] | None:
        found = [pod for pod in self.pods() if pod["status"].get("phase") == "Running" and not _is_ending(pod)]
        return found if len(found) == count else None

    def _pool_that_is(self, statuses: tuple[str, ...]) -> str:
        return next((name for name, status in self.pools().items() if status in statuses), "")

    def _open_nodes(self, pool: str) -> list[str]:
        found = self.cloud.items("/api/v1/nodes", labelSelector=f"cloud.google.com/gke-nodepool={pool}")
        return [each["metadata"]["name"] for each in found if not each["spec"].get("unschedulable")]


def _is_ending(pod: Json) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))
