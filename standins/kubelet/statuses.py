"""What a pod is going to do, and the statuses that a kubelet writes of it. Pure.

A status is a strategic merge patch. What each annotation of a pod means is in docs/local-stack.md.
Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

import math
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

SIGTERM_EXIT_CODE = 143
_PREFIX = "local.tpu-provisioner/"
_RESTART_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


@dataclass(frozen=True)
class Plan:
    """How a pod behaves, in virtual seconds."""

    run_seconds: float
    exit_code: int
    grace_seconds: float
    restart_policy: str
    fail_runs: float = math.inf  # after so many runs of the same pod the containers succeed
    pods_together: float = 0  # how many pods of its JobSet have to run before its time counts

    def exit_code_of(self, restarts: int) -> int:
        """Return how the containers end after they were started again so often."""
        return self.exit_code if restarts < self.fail_runs else 0

    def restarts_in_place(self, restarts: int) -> bool:
        """Return whether the containers are started again after that end."""
        failed = self.exit_code_of(restarts) != 0
        return self.restart_policy == "Always" or (self.restart_policy == "OnFailure" and failed)


def plan_for(pod: Json, *, run_seconds: float) -> Plan:
    """Return the plan of a pod. Raises ValueError: an annotation is not a number."""
    metadata = pod["metadata"]
    own = metadata.get("annotations") or {}
    exit_code = int(_read_number(own, f"{_PREFIX}exit-code", 0))
    fail_attempts = _read_number(own, f"{_PREFIX}fail-attempts", math.nan)
    fail_runs = _read_number(own, f"{_PREFIX}fail-runs", math.inf)
    if not math.isnan(fail_attempts):
        attempt = _read_number(metadata.get("labels") or {}, _RESTART_ATTEMPT, 0)
        exit_code = (exit_code or 1) if attempt < fail_attempts else 0
    if math.isfinite(fail_runs):
        exit_code = exit_code or 1
    return Plan(
        run_seconds=_read_number(own, f"{_PREFIX}run-seconds", run_seconds),
        exit_code=exit_code,
        grace_seconds=float(metadata.get("deletionGracePeriodSeconds") or 0),
        restart_policy=pod["spec"].get("restartPolicy", "Always"),
        fail_runs=fail_runs,
        pods_together=_read_number(own, f"{_PREFIX}pods-together", 0),
    )


def _read_number(source: Json, key: str, default: float) -> float:
    return float(source.get(key, default))


def running(pod: Json, now: str, *, restarts: int = 0) -> Json:
    """Return the patch of a pod whose containers have started."""
    statuses = _containers(pod, {"running": {"startedAt": now}}, ready=True, restarts=restarts)
    patch = _patch("Running", statuses, _conditions(now, ready=True, reason=""))
    patch["status"] |= {"hostIP": "127.0.0.1", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    if not restarts:
        patch["status"]["startTime"] = now
    return patch


def crashed(pod: Json, now: str, *, exit_code: int, restarts: int) -> Json:
    """Return the patch of a running pod whose containers ended and will be started again."""
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
    last = {"terminated": _terminated(exit_code, now)}
    statuses = _containers(pod, state, ready=False, restarts=restarts, last=last)
    return _patch("Running", statuses, _conditions(now, ready=False, reason="ContainersNotReady"))


def ended(pod: Json, now: str, *, exit_code: int, restarts: int = 0) -> Json:
    """Return the patch of a pod whose containers have ended for good."""
    phase, reason = ("Failed", "PodFailed") if exit_code else ("Succeeded", "PodCompleted")
    statuses = _containers(pod, {"terminated": _terminated(exit_code, now)}, ready=False, restarts=restarts)
    return _patch(phase, statuses, _conditions(now, ready=False, reason=reason))


def _patch(phase: str, containers: list[Json], conditions: list[Json]) -> Json:
    return {"status": {"phase": phase, "containerStatuses": containers, "conditions": conditions}}


def _terminated(exit_code: int, now: str) -> Json:
    return {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed", "finishedAt": now}


def _containers(pod: Json, state: Json, *, ready: bool, restarts: int, last: Json | None = None) -> list[Json]:
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": restarts,
            "state": state,
            "lastState": last or {},
        }
        for container in pod["spec"]["containers"]
    ]


def _conditions(now: str, *, ready: bool, reason: str) -> list[Json]:
    status = "True" if ready else "False"
    initialized = {"type": "Initialized", "status": "True", "lastTransitionTime": now}
    found = [
        {"type": kind, "status": status, "reason": reason or None, "lastTransitionTime": now}
        for kind in ("Ready", "ContainersReady")
    ]
    return [initialized, *found]
