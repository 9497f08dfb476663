"""The status of a JobSet while one pass of its controller changes it: counters, conditions, the events they cause.

Source: https://github.com/kubernetes-sigs/jobset (pkg/controllers/jobset_controller.go, pkg/constants,
release 0.11.1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from local.cluster.jobset_views import JobSetView
from local.cluster.labels import REPLICATED_JOB_NAME, RESTART_ATTEMPT
from local.cluster.registry import set_condition
from local.cluster.store.kinds import JOB
from local.cluster.views import JobView

if TYPE_CHECKING:
    from local.cluster.store.store import Store
    from local.cluster.store.stored import Stored

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
        counters: dict[str, Json] = {
            replicated.name: {
                "name": replicated.name,
                "ready": 0,
                "succeeded": 0,
                "failed": 0,
                "active": 0,
                "suspended": 0,
            }
            for replicated in self.jobset.spec.replicated_jobs
        }
        for stored in children.active:
            job = stored.view(JobView)
            counter = counters.get(job.metadata.labels.get(REPLICATED_JOB_NAME, ""))
            if counter is None:
                continue
            counter["ready"] += job.status.succeeded + job.status.ready >= job.spec.width
            counter["active"] += job.status.active > 0
            counter["suspended"] += job.spec.suspend
        for state, jobs in (("succeeded", children.successful), ("failed", children.failed)):
            for stored in jobs:
                counter = counters.get(stored.labels.get(REPLICATED_JOB_NAME, ""))
                if counter is not None:
                    counter[state] += 1
        self.status["replicatedJobsStatus"] = list(counters.values())
        self.status.setdefault("restarts", 0)

    def counter(self, replicated: str) -> Json:
        """Return the counters of one replicated job."""
        counters: list[Json] = self.status["replicatedJobsStatus"]
        return next(found for found in counters if found["name"] == replicated)

    def started(self, replicated: str) -> int:
        """Return how many Jobs of a replicated job are ready or over."""
        counter = self.counter(replicated)
        return int(counter["ready"] + counter["succeeded"] + counter["failed"])

    def set(
        self, condition_type: str, reason: str, message: str, *, value: bool = True, warning: bool = False
    ) -> None:
        """Set a condition; False is only written over an existing one, and excluded conditions turn False."""
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

    def restart(self, *, event: str, message: str, counts: bool) -> None:
        """Begin another attempt of the whole JobSet."""
        self.status["restarts"] = self.status.get("restarts", 0) + 1
        if counts:
            self.status["restartsCountTowardsMax"] = self.status.get("restartsCountTowardsMax", 0) + 1
        self.events.append((event, message, True))
