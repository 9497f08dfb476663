"""The steps in the life of a slice, in order, with their names in views and reports."""

from enum import StrEnum


class Step(StrEnum):
    """One step of a slice's life; the value is its key in the JSON report and never changes."""

    UNSCHEDULABLE = "unschedulable"
    PUBLISHED = "published"
    INVOKED = "invoked"
    ACCEPTED = "accepted"
    NODES_READY = "nodes_ready"
    LEADER_BOUND = "leader_bound"
    FOLLOWERS_CREATED = "followers_created"
    RUNNING = "running"
    COMPLETED = "completed"
    DELETE_ACCEPTED = "delete_accepted"
    DELETED = "deleted"


STEPS = tuple(Step)
STEPS_OF_POOL = (Step.ACCEPTED, Step.NODES_READY, Step.DELETE_ACCEPTED, Step.DELETED)
"""What happens to the pool of a slice; the others happen to its pods."""

SENTENCES = {
    Step.UNSCHEDULABLE: "the leader pod is unschedulable",
    Step.PUBLISHED: "the exporter published the demand",
    Step.INVOKED: "the function was invoked",
    Step.ACCEPTED: "GKE accepted CreateNodePool",
    Step.NODES_READY: "all nodes are ready",
    Step.LEADER_BOUND: "the leader is bound",
    Step.FOLLOWERS_CREATED: "all followers are created",
    Step.RUNNING: "all pods are running",
    Step.COMPLETED: "the workload is over",
    Step.DELETE_ACCEPTED: "GKE accepted DeleteNodePool",
    Step.DELETED: "the node pool is gone",
}

SHORT = {
    Step.UNSCHEDULABLE: "stuck",
    Step.PUBLISHED: "sent",
    Step.INVOKED: "asked",
    Step.ACCEPTED: "create",
    Step.NODES_READY: "nodes",
    Step.LEADER_BOUND: "leader",
    Step.FOLLOWERS_CREATED: "follow",
    Step.RUNNING: "runs",
    Step.COMPLETED: "over",
    Step.DELETE_ACCEPTED: "delete",
    Step.DELETED: "gone",
}
"""Column headings."""
