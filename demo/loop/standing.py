"""What a JobSet lacks of its Jobs and pods, and what the cluster's own Events say about it. Pure.

For a workload that nothing happens to: a quota, an admission plugin or a webhook may refuse what
its controllers create, and only Events tell. Asking the cluster is in `demo.loop.asking`.
"""

from dataclasses import dataclass
from typing import Any

from demo.loop.progress import NO_JOBS, NO_PODS
from shared.kinds import jobset as jobset_keys

JOBSET_NAME = jobset_keys.JOBSET_NAME_ON_POD
_JOB_NAME = "batch.kubernetes.io/job-name"
CREATION_FAILED = ("FailedCreate", "JobCreationFailed", "HeadlessServiceCreationFailed", "PVCCreationFailed")
"""Reasons of the Job controller and of JobSet. Source: pkg/constants of
https://github.com/kubernetes-sigs/jobset and pkg/controller of
https://github.com/kubernetes/kubernetes."""
_MESSAGE_LENGTH_MAX = 400
_OVER = ("Succeeded", "Failed")
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that the cluster should have created and has not."""

    reason: str
    job: str
    """The Job that lacks pods; nothing when Jobs themselves are lacking."""
    missing: str
    """For a reader, for example ``no pods``."""
    event: str
    """Reason and message of the latest Event about it; empty when there is none, and it may only be
    slow."""

    @property
    def message(self) -> str:
        """Both in one line."""
        return f"{self.missing}: {self.event}" if self.event else f"{self.missing}, and no Event gives the reason"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a workload stands in the cluster at this moment."""

    runs: bool = False
    """Whether a pod of it has a node and is not over: then something can still change by itself."""
    lacks: tuple[Lack, ...] = ()


def read_standing(jobset: Json, jobs: list[Json], pods: list[Json], events: list[Json]) -> Standing:
    """Return how a workload stands. Only Events about it or its Jobs that tell of trouble count."""
    failures = [each for each in events if each.get("reason") in CREATION_FAILED]
    lacks = _lacking_jobs(jobset, jobs, failures)
    for job in jobs:
        own = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(_JOB_NAME) == _name(job)]
        lacks += _lacking_pods(job, own, failures)
    return Standing(runs=any(_is_bound(pod) and _phase(pod) not in _OVER for pod in pods), lacks=tuple(lacks))


def _lacking_jobs(jobset: Json, jobs: list[Json], failures: list[Json]) -> list[Lack]:
    wanted = {
        f"{_name(jobset)}-{each['name']}-{index}"
        for each in jobset.get("spec", {}).get("replicatedJobs", [])
        for index in range(each.get("replicas", 1))
    }
    lacking = wanted - {_name(job) for job in jobs}
    if not lacking:
        return []
    return [Lack(NO_JOBS, "", _count("Jobs", len(lacking), len(wanted)), _latest(failures, jobset))]


def _lacking_pods(job: Json, pods: list[Json], failures: list[Json]) -> list[Lack]:
    """Return that a Job lacks pods; not while one of them waits for a node."""
    spec = job.get("spec", {})
    is_over = any(each.get("status") == "True" for each in job.get("status", {}).get("conditions") or [])
    if spec.get("suspend") or is_over or not all(_is_bound(pod) for pod in pods):
        return []
    parallelism = spec.get("parallelism", 1)
    wanted = min(parallelism, spec.get("completions") or parallelism)
    lacking = wanted - len(pods)
    if lacking <= 0:
        return []
    return [Lack(NO_PODS, _name(job), _count("pods", lacking, wanted), _latest(failures, job))]


def _latest(failures: list[Json], about: Json) -> str:
    """Return reason and message of the last Event about an object."""
    uid = about["metadata"]["uid"]
    own = [each for each in failures if each.get("involvedObject", {}).get("uid") == uid]
    if not own:
        return ""
    return describe_event(max(own, key=_moment))


def describe_event(event: Json) -> str:
    """Return the reason and the message of an Event, in one line and not too long."""
    text = " ".join(f"{event['reason']}: {event.get('message', '')}".split())
    return text if len(text) <= _MESSAGE_LENGTH_MAX else text[:_MESSAGE_LENGTH_MAX] + "…"


def _moment(event: Json) -> str:
    created = event.get("metadata", {}).get("creationTimestamp")
    return str(event.get("lastTimestamp") or event.get("eventTime") or created or "")


def _count(what: str, lacking: int, wanted: int) -> str:
    return f"no {what}" if lacking == wanted else f"{wanted - lacking} of {wanted} {what}"


def _name(body: Json) -> str:
    return str(body["metadata"]["name"])


def _is_bound(pod: Json) -> bool:
    return bool(pod.get("spec", {}).get("nodeName"))


def _phase(pod: Json) -> str:
    return str(pod.get("status", {}).get("phase", ""))
