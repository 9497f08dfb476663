"""What a cluster's controllers have yet to write: while there is any, quiet is no rest.

The real Job controller counts once a second, or later on a busy machine. So a quiet time does not
show that a count is the last one. A count that agrees with the objects does.
"""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer that a pod carries until its Job has counted its end."""
_JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
_RESTART = "jobset.sigs.k8s.io/restart-attempt"
_ENDED = ("Succeeded", "Failed")


def list_unwritten(jobsets: list[Json], jobs: list[Json], pods: list[Json]) -> list[str]:
    """Return what is yet to be written about the objects of one namespace, in words.

    What is over or being deleted is passed over: nobody need write about it any more.
    """
    return [
        *(text for job in jobs if _lives(job) for text in _list_uncounted(job, pods)),
        *(text for jobset in jobsets if _lives(jobset) for text in _list_unseen_jobs(jobset, jobs)),
        *(f"pod {_name(pod)} has no word from the scheduler" for pod in pods if _is_unjudged(pod)),
    ]


def _list_uncounted(job: Json, pods: list[Json]) -> Iterator[str]:
    mine = [pod for pod in pods if _owner(pod) == job["metadata"]["uid"]]
    going = [pod for pod in mine if is_going(pod) and not _has_ended(pod)]
    active = [pod for pod in mine if not is_going(pod) and not _has_ended(pod)]
    counted = {
        "active": len(active),
        "ready": sum(_condition(pod, "Ready") == "True" for pod in active),
        "terminating": len(going),
    }
    for field, count in counted.items():
        if (answer := job.get("status", {}).get(field, 0)) != count:
            yield f"job {_name(job)} says {answer} {field} of {count}"
    for pod in mine:
        if _has_ended(pod) and TRACKING in pod["metadata"].get("finalizers", ()):
            yield f"job {_name(job)} has not counted the end of pod {_name(pod)}"


def _list_unseen_jobs(jobset: Json, jobs: list[Json]) -> Iterator[str]:
    status = jobset.get("status", {})
    mine = [job for job in jobs if _label(job, _JOBSET_NAME) == _name(jobset) and _lives(job)]
    # Jobs of an earlier attempt are on their way out and are not counted.
    mine = [job for job in mine if _label(job, _RESTART) == str(status.get("restarts", 0))]
    for fields in status.get("replicatedJobsStatus", ()):
        each = [job for job in mine if _label(job, _REPLICATED_JOB) == fields["name"]]
        counted = {"active": sum(map(_is_active, each)), "ready": sum(map(_is_ready, each))}
        for field, count in counted.items():
            if fields.get(field, 0) != count:
                yield f"jobset {_name(jobset)} says {fields.get(field, 0)} {field} {fields['name']} of {count}"


def _lives(body: Json) -> bool:
    return not is_going(body) and not any(
        _condition(body, end) == "True" for end in ("Complete", "Completed", "Failed")
    )


def is_going(body: Json) -> bool:
    """Whether an object is being deleted."""
    return "deletionTimestamp" in body["metadata"]


def _has_ended(pod: Json) -> bool:
    return pod["status"].get("phase") in _ENDED


def _is_unjudged(pod: Json) -> bool:
    return not is_going(pod) and _condition(pod, "PodScheduled") is None


def _is_active(job: Json) -> bool:
    return bool(job.get("status", {}).get("active", 0))


def _is_ready(job: Json) -> bool:
    spec, status = job["spec"], job.get("status", {})
    width = min(spec.get("parallelism", 1), spec.get("completions", spec.get("parallelism", 1)))
    return bool(status.get("ready", 0) + status.get("succeeded", 0) >= width)


def _condition(body: Json, kind: str) -> str | None:
    found = (each["status"] for each in body.get("status", {}).get("conditions", ()) if each["type"] == kind)
    return next(found, None)


def _owner(body: Json) -> str:
    return next(
        (each["uid"] for each in body["metadata"].get("ownerReferences", ()) if each.get("controller")), ""
    )


def _label(body: Json, label: str) -> str:
    return str(body["metadata"].get("labels", {}).get(label, ""))


def _name(body: Json) -> str:
    return str(body["metadata"]["name"])
