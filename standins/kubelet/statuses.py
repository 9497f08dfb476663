"""The pod statuses that a kubelet writes, as strategic merge patches. Pure.

Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from typing import Any

Json = dict[str, Any]

SIGTERM_EXIT_CODE = 143


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
