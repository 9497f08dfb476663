"""The status of a JobSet while one pass of its controller changes it: counters, conditions, Events.

Source: https://github.com/kubernetes-sigs/jobset (pkg/controllers/jobset_controller.go,
pkg/constants, release 0.11.1).
"""

from dataclasses import dataclass, field
from typing import Any

from standins.cluster.objects.conditions import set_condition
from standins.cluster.objects.jobset_shapes import JobSetView
from standins.cluster.objects.label_names import REPLICATED_JOB_NAME, RESTART_ATTEMPT
from standins.cluster.objects.shapes import JobView
from standins.cluster.store.kinds import JOB
from standins.cluster.store.object_store import Store
from standins.cluster.store.stored import Stored

Json = dict[str, Any]

_EXCLUDES = {
    "StartupPolicyInProgress": "StartupPolicyCompleted",
    "StartupPolicyCompleted": "StartupPolicyInProgress",
}


@dataclass
class ChildJobs:
    """The Jobs of a JobSet, by state; `previous` are those of an earlier restart attempt."""

    active: list[Stored] = field(default_factory=list)
    successful: list[Stored] = field(default_factory=list)
    failed: list[Stored] = field(default_factory=list)
    previous: list[Stored] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """Return the names that are taken, whatever the state."""
        return {
            stored.name for jobs in (self.active, self.successful, self.failed, self.previous) for stored in jobs
        }


def child_jobs(store: Store, jobset: JobSetView) -> ChildJobs:
    """Return the Jobs that a JobSet controls."""
    children = ChildJobs()
    for stored in sorted(store.dependents(jobset.metadata.uid), key=lambda found: found.key):
        if stored.kind is not JOB:
            continue
        job = stored.view(JobView)
        if int(job.metadata.labels.get(RESTART_ATTEMPT, "0")) < jobset.status.restarts:
            children.previous.append(stored)
        elif job.true_condition("Complete"):
            children.successful.append(stored)
        elif job.true_condition("Failed"):
            children.failed.append(stored)
        else:
            children.active.append(stored)
    return children


class StatusDraft:
    """A JobSet's status being worked on."""

    def __init__(self, stored: Stored, now: str) -> None:
        self.jobset = stored.view(JobSetView)
        self.status: Json = stored.body().get("status", {})
        self.events: list[tuple[str, str, bool]] = []
        self._now = now

    def count(self, children: ChildJobs) -> None:
        """Write the counters of every replicated job."""
        zeros = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
        counters: dict[str, Json] = {
            replicated.name: {"name": replicated.name} | zeros for replicated in self.jobset.spec.replicated_jobs
        }
        for stored in children.active:
            job = stored.view(JobView)
            counter = counters[job.metadata.labels[REPLICATED_JOB_NAME]]
            counter["ready"] += job.status.succeeded + job.status.ready >= job.spec.width
            counter["active"] += job.status.active > 0
            counter["suspended"] += job.spec.suspend
        for state, jobs in (("succeeded", children.successful), ("failed", children.failed)):
            for stored in jobs:
                counters[stored.labels[REPLICATED_JOB_NAME]][state] += 1
        self.status["replicatedJobsStatus"] = list(counters.values())
        self.status.setdefault("restarts", 0)

    def started(self, replicated: str) -> int:
        """Return how many Jobs of a replicated job are ready or over."""
        counters: list[Json] = self.status["replicatedJobsStatus"]
        counter = next(found for found in counters if found["name"] == replicated)
        return int(counter["ready"] + counter["succeeded"] + counter["failed"])

    def set(
        self, condition_type: str, reason: str, message: str, *, value: bool = True, warning: bool = False
    ) -> None:
        """Set a condition; False only replaces an existing one, and excluded ones become False."""
        conditions: list[Json] = self.status.get("conditions", [])
        if not value and not any(found["type"] == condition_type for found in conditions):
            return
        if value:
            for found in conditions:
                if found["type"] == _EXCLUDES.get(condition_type) and found["status"] == "True":
                    found["status"] = "False"
        status = "True" if value else "False"
        condition = {"type": condition_type, "status": status, "reason": reason, "message": message}
        if set_condition(self.status, condition, self._now):
            self.events.append((reason, message, warning))

    def complete(self) -> None:
        """Mark the JobSet as completed."""
        self.set("Completed", "AllJobsCompleted", "jobset completed successfully")
        self.status["terminalState"] = "Completed"

    def fail(self, reason: str, message: str) -> None:
        """Mark the JobSet as failed."""
        self.set("Failed", reason, message, warning=True)
        self.status["terminalState"] = "Failed"

    def restart(self, message: str) -> None:
        """Begin another attempt of the whole JobSet."""
        for counter in ("restarts", "restartsCountTowardsMax"):
            self.status[counter] = self.status.get(counter, 0) + 1
        self.events.append(("RestartJobSetFailurePolicyAction", message, True))
