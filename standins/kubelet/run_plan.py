"""What a pod is going to do: how long it runs and how it ends. Pure: a pod in, a plan out.

Annotations of a pod, all optional:
`local.tpu-provisioner/run-seconds`, `local.tpu-provisioner/exit-code`,
`local.tpu-provisioner/fail-attempts` (fail while the label `jobset.sigs.k8s.io/restart-attempt` is
smaller), `local.tpu-provisioner/fail-runs` (fail so many times and then succeed, in one pod whose
containers are started again), `local.tpu-provisioner/pods-together` (the time counts once so many
pods of the JobSet run, as the slices of a multislice job wait for each other).
"""

import math
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

PREFIX = "local.tpu-provisioner/"
RUN_SECONDS = f"{PREFIX}run-seconds"
EXIT_CODE = f"{PREFIX}exit-code"
FAIL_ATTEMPTS = f"{PREFIX}fail-attempts"
FAIL_RUNS = f"{PREFIX}fail-runs"
PODS_TOGETHER = f"{PREFIX}pods-together"
RESTART_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


class PlanError(ValueError):
    """An annotation that is not a number; the text names it."""


@dataclass(frozen=True)
class Plan:
    """How a pod behaves, in virtual seconds."""

    run_seconds: float
    exit_code: int
    grace_seconds: float
    restart_policy: str
    fail_runs: float = math.inf
    """After so many runs of the same pod the containers succeed."""
    pods_together: float = 0
    """How many pods of its JobSet have to run before its time counts."""

    def exit_code_of(self, restarts: int) -> int:
        """Return how the containers end after they were started again so often."""
        return self.exit_code if restarts < self.fail_runs else 0

    def restarts_in_place(self, restarts: int) -> bool:
        """Return whether the containers are started again after that end."""
        failed = self.exit_code_of(restarts) != 0
        return self.restart_policy == "Always" or (self.restart_policy == "OnFailure" and failed)


def plan_for(pod: Json, *, run_seconds: float) -> Plan:
    """Return the plan of a pod. Raises PlanError: when an annotation is not a number."""
    annotations = pod["metadata"].get("annotations") or {}
    labels = pod["metadata"].get("labels") or {}
    exit_code = int(_number(annotations, EXIT_CODE, 0))
    if FAIL_ATTEMPTS in annotations:
        attempt = int(_number(labels, RESTART_ATTEMPT, 0))
        exit_code = (exit_code or 1) if attempt < _number(annotations, FAIL_ATTEMPTS, 0) else 0
    fail_runs = _number(annotations, FAIL_RUNS, math.inf)
    if FAIL_RUNS in annotations:
        exit_code = exit_code or 1
    return Plan(
        run_seconds=_number(annotations, RUN_SECONDS, run_seconds),
        exit_code=exit_code,
        grace_seconds=float(pod["metadata"].get("deletionGracePeriodSeconds") or 0),
        restart_policy=pod["spec"].get("restartPolicy", "Always"),
        fail_runs=fail_runs,
        pods_together=_number(annotations, PODS_TOGETHER, 0),
    )


def _number(source: Json, key: str, default: float) -> float:
    text = source.get(key)
    if text is None:
        return default
    try:
        return float(text)
    except ValueError as error:
        raise PlanError(f"{key}: {text!r} is not a number") from error
