"""Deletion: grace, propagation, preconditions, finalizers.

An object without finalizers and grace is removed at once. Any other gets a deletionTimestamp first.
Sources: https://kubernetes.io/docs/concepts/architecture/garbage-collection/ and
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
"""

from typing import Any, Literal

import msgspec

from standins.cluster.store.errors import bad_request, conflict
from standins.cluster.store.kinds import NAMESPACE, POD, Kind
from standins.cluster.store.stored import Stored
from standins.cluster.writing.registry import Registry, may_leave

Json = dict[str, Any]

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_FINALIZER_OF = {"Orphan": ORPHAN, "Foreground": FOREGROUND}
_DEFAULT_GRACE_SECONDS = 30


class Preconditions(msgspec.Struct, rename="camel"):
    """What must still be true of the object for the delete to happen."""

    uid: str | None = None


class DeleteOptions(msgspec.Struct, rename="camel"):
    """The options of a delete request that this cluster knows."""

    grace_period_seconds: int | None = None
    propagation_policy: Literal["Background", "Foreground", "Orphan"] | None = None
    preconditions: Preconditions | None = None


BACKGROUND_NOW = DeleteOptions(grace_period_seconds=0, propagation_policy="Background")
BACKGROUND = DeleteOptions(propagation_policy="Background")
IN_FOREGROUND = DeleteOptions(propagation_policy="Foreground")


def read_options(body: bytes, query: dict[str, str]) -> DeleteOptions:
    """Return the options of a request: its body, overridden by its query.

    Raises ApiError: 400, naming the field.
    """
    try:
        options = msgspec.json.decode(body, type=DeleteOptions) if body.strip() else DeleteOptions()
        if "gracePeriodSeconds" in query:
            options.grace_period_seconds = int(query["gracePeriodSeconds"])
        if "propagationPolicy" in query:
            options.propagation_policy = msgspec.convert(
                query["propagationPolicy"], type=Literal["Background", "Foreground", "Orphan"]
            )
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
        raise bad_request(f"invalid DeleteOptions: {error}") from error
    return options


def delete(registry: Registry, stored: Stored, options: DeleteOptions) -> tuple[Stored, bool]:
    """Delete an object, now or once nothing holds it; return its last state and whether it is gone.

    Raises ApiError: 409, when a precondition does not hold.
    """
    kind = stored.kind
    _check_preconditions(kind, stored, options.preconditions)
    body = stored.body()
    metadata = body["metadata"]
    _set_finalizers(kind, metadata, options)
    grace = _grace_seconds(kind, body, options)
    first = "deletionTimestamp" not in metadata
    if first and kind.has_generation:
        metadata["generation"] = metadata.get("generation", 1) + 1
    if first and kind is NAMESPACE:
        body.setdefault("status", {})["phase"] = "Terminating"
    if first or grace < metadata.get("deletionGracePeriodSeconds", 0):
        metadata["deletionTimestamp"] = registry.clock.timestamp(after_seconds=grace)
        metadata["deletionGracePeriodSeconds"] = grace
    if may_leave(kind, body):
        if kind is POD:
            # A pod is marked first, even if it has no grace: watchers see that before it is gone.
            stored = registry.mark(stored, body)
        registry.store.remove(stored)
        return stored, True
    return registry.write(kind, stored, body), False


def _check_preconditions(kind: Kind, stored: Stored, preconditions: Preconditions | None) -> None:
    if preconditions is not None and preconditions.uid not in {None, stored.uid}:
        why = f"the UID in the precondition ({preconditions.uid}) does not match the UID in record ({stored.uid})"
        raise conflict(kind, stored.name, why)


def _set_finalizers(kind: Kind, metadata: Json, options: DeleteOptions) -> None:
    policy = options.propagation_policy
    if policy is None and kind.orphans_by_default:
        policy = "Orphan"
    finalizers = metadata.get("finalizers", [])
    if policy is not None:
        finalizers = [found for found in finalizers if found not in {ORPHAN, FOREGROUND}]
    if policy in _FINALIZER_OF:
        finalizers.append(_FINALIZER_OF[policy])
    metadata["finalizers"] = finalizers


def _grace_seconds(kind: Kind, body: Json, options: DeleteOptions) -> int:
    """Return the grace: only a pod that runs on a node has one."""
    if kind is not POD:
        return 0
    spec, status = body["spec"], body.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
        return 0
    if options.grace_period_seconds is not None:
        return max(0, options.grace_period_seconds)
    return int(spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS))
