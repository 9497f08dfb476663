"""The RayJob, which creates a RayCluster and may keep it after its end: read for one Event only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.kinds.kind import Resource
from shared.kinds.objects import read_flag, read_object, read_objects, read_text
from shared.model.workloads import Parent

if TYPE_CHECKING:
    from shared.kinds.kind import Json

RAYJOB = Resource(name="RayJob", api_version="ray.io/v1", plural="rayjobs")
_INVALID = "ValidationFailed"
_ENDED = ("Complete", "Failed", _INVALID)
_EARLIER_RULES = {"SUCCEEDED": "onSuccess", "FAILED": "onFailure"}
"""The fields of ``deletionStrategy`` before there were ``deletionRules``."""
_RELEASING = {"DeleteWorkers", "DeleteCluster", "DeleteSelf"}


def read_parent(body: Json) -> Parent | None:
    """Return the RayJob that controls a RayCluster; None without one."""
    for each in read_objects(body, "metadata", "ownerReferences"):
        if read_flag(each, "controller") and read_text(each, "kind") == RAYJOB.name:
            namespace, name = read_text(body, "metadata", "namespace"), read_text(each, "name")
            return Parent(
                kind=RAYJOB.name, namespace=namespace, name=name, uid=read_text(each, "uid")
            )
    return None


def judge_rayjob(body: Json) -> str:
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
    remedy = (
        "add a deletion rule that applies to this end"
        if by_rule
        else "set shutdownAfterJobFinishes: true"
    )
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
