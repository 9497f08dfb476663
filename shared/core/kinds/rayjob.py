"""The RayJob, which creates a RayCluster and may keep it after its end.

While it is suspended it has no RayCluster. But its ``rayClusterSpec`` may be suspended too, and
then the RayCluster is created without pods. KubeRay copies the annotations and labels to it, and
never writes its ``suspend``: constructRayClusterForRayJob in
https://github.com/ray-project/kuberay/blob/v1.6.1/ray-operator/controllers/ray/rayjob_controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.kinds.kind import ParentKind
from shared.core.kinds.objects import (
    read_controller,
    read_flag,
    read_identity,
    read_object,
    read_objects,
    read_text,
)
from shared.core.workloads import WorkloadView

if TYPE_CHECKING:
    from shared.core.kinds.kind import Json, TemplateReader

NAME = "RayJob"
API_VERSION = "ray.io/v1"
CHILD_SPEC = "rayClusterSpec"
_OPERATOR = "ray.io/kuberay-operator"  # as spec.managedBy
_CRON = "RayCronJob"
"""Makes RayJobs, and does not decide later whether they are suspended."""
_INVALID = "ValidationFailed"
_ENDED = ("Complete", "Failed", _INVALID)
_EARLIER_RULES = {"SUCCEEDED": "onSuccess", "FAILED": "onFailure"}
"""The fields of ``deletionStrategy`` before there were ``deletionRules``."""
_RELEASING = {"DeleteWorkers", "DeleteCluster", "DeleteSelf"}


def _judge_rayjob(body: Json) -> str:
    """Return why a RayJob that has ended keeps its RayCluster; empty if it does not.

    A RayCluster that ``clusterSelector`` names is not its child. KubeRay decides in
    https://github.com/ray-project/kuberay/blob/v1.6.1/ray-operator/controllers/ray/rayjob_controller.go.
    """
    ended = read_text(body, "status", "jobDeploymentStatus")
    if ended not in _ENDED or (ended != _INVALID and _lets_go(body, ended)):
        return ""
    identity = f"{read_text(body, 'metadata', 'namespace')}/{read_text(body, 'metadata', 'name')}"
    message = f"RayJob {identity} is {ended} and keeps its RayCluster with all its node pools"
    if ended == _INVALID:
        return f"{message}; KubeRay does not delete them: delete the RayJob or the RayCluster"
    by_rule = bool(read_object(body, "spec", "deletionStrategy"))
    remedy = "add a deletion rule that applies to this end" if by_rule else "set shutdownAfterJobFinishes: true"
    return f"{message}; to release them, {remedy}, or delete the RayJob or the RayCluster"


def _lets_go(body: Json, ended: str) -> bool:
    """Return whether KubeRay deletes the workers of a RayJob after its end, now or later."""
    outcome = read_text(body, "status", "jobStatus")
    strategy = read_object(body, "spec", "deletionStrategy")
    if not strategy:
        return read_flag(body, "spec", "shutdownAfterJobFinishes")
    rules = read_objects(strategy, "deletionRules")
    if rules:
        policies = {
            read_text(each, "policy")
            for each in rules
            if (read_text(each, "condition", "jobStatus") or None) == outcome
            or (read_text(each, "condition", "jobDeploymentStatus") or None) == ended
        }
    else:
        policies = {read_text(strategy, _EARLIER_RULES.get(outcome, ""), "policy")}
    return bool(policies & _RELEASING)


def _find_end(body: Json) -> str:
    if read_text(body, "metadata", "deletionTimestamp"):
        return "being deleted"
    ended = read_text(body, "status", "jobDeploymentStatus")
    return ended if ended in _ENDED else ""


def _read(body: Json, _read_template: TemplateReader) -> WorkloadView:
    ended, maker = _find_end(body), read_controller(body)
    return WorkloadView(
        **read_identity(NAME, body),
        suspended=read_flag(body, "spec", "suspend"),
        terminal="" if ended == _INVALID else ended,
        part_of="" if maker.startswith(_CRON) else maker,
        unfit=find_unfit(body),
    )


def find_unfit(body: Json) -> tuple[str, str] | None:
    """Return why a suspended RayJob cannot wait for its capacity, and what is valid; else None.

    One that KubeRay refuses has the status ``ValidationFailed`` for ever: ValidateRayJobSpec in
    https://github.com/ray-project/kuberay/blob/v1.6.1/ray-operator/controllers/ray/utils/validation.go.
    """
    if read_object(body, "spec", "clusterSelector"):
        return "spec.clusterSelector names a RayCluster that this RayJob does not create", f"spec.{CHILD_SPEC}"
    if not read_object(body, "spec", CHILD_SPEC):
        return f"it has no spec.{CHILD_SPEC}, so it makes no RayCluster", f"spec.{CHILD_SPEC}"
    if not read_flag(body, "spec", "shutdownAfterJobFinishes"):
        remedy = f"a new RayJob with shutdownAfterJobFinishes: true, or with spec.{CHILD_SPEC}.suspend: true"
        return "KubeRay refuses a suspended RayJob without shutdownAfterJobFinishes", remedy
    if read_text(body, "status", "jobDeploymentStatus") == _INVALID:
        return f"KubeRay has refused this RayJob ({_INVALID}) and makes no RayCluster of it", "a new RayJob"
    if read_text(body, "spec", "managedBy") not in ("", _OPERATOR):
        return "spec.managedBy names another controller", "no spec.managedBy"
    return None


RAYJOB = ParentKind(
    name=NAME,
    api_version=API_VERSION,
    plural="rayjobs",
    judge=_judge_rayjob,
    find_end=_find_end,
    read=_read,
    child_spec=CHILD_SPEC,
)
