"""The child Jobs and the service that a JobSet makes, with all labels and annotations.

Source: https://github.com/kubernetes-sigs/jobset (pkg/controllers/jobset_controller.go,
release 0.11.1).
"""

import hashlib
from itertools import takewhile
from typing import Any

from standins.cluster.objects import label_names as names
from standins.cluster.objects.jobset_shapes import JobSetView, ReplicatedJob
from standins.cluster.store.stored import Stored

Json = dict[str, Any]


def job_name(jobset: str, replicated: str, index: int) -> str:
    """Return the name of a child Job."""
    return f"{jobset}-{replicated}-{index}"


def job_key(namespace: str, job: str) -> str:
    """Return the stable identity of a slice: SHA-1 of `namespace/jobName` in hex."""
    return hashlib.sha1(f"{namespace}/{job}".encode(), usedforsecurity=False).hexdigest()


def subdomain(jobset: JobSetView) -> str:
    """Return the subdomain of the pods, which is the service's name."""
    return jobset.spec.network.subdomain or jobset.metadata.name


def new_job(stored: Stored, position: int, index: int) -> Json:
    """Return the body of one child Job of the replicated job at a position in the spec."""
    jobset = stored.view(JobSetView)
    replicated = jobset.spec.replicated_jobs[position]
    template = stored.body()["spec"]["replicatedJobs"][position]["template"]
    spec = template["spec"]
    pod_template = spec.setdefault("template", {})
    pod_spec = pod_template.setdefault("spec", {})
    name = job_name(stored.name, replicated.name, index)
    labels = _labels(jobset, replicated, index, name)
    annotations = labels | _placement(jobset, replicated)
    template_metadata = template.get("metadata", {})
    pod_metadata = pod_template.setdefault("metadata", {})
    job_annotations = template_metadata.get("annotations", {}) | annotations
    pod_metadata["labels"] = pod_metadata.get("labels", {}) | labels
    pod_metadata["annotations"] = pod_metadata.get("annotations", {}) | annotations
    if jobset.spec.network.enable_dns_hostnames:
        pod_spec["subdomain"] = subdomain(jobset)
    if names.EXCLUSIVE_TOPOLOGY in job_annotations and names.NODE_SELECTOR_STRATEGY in job_annotations:
        pod_spec.setdefault("nodeSelector", {})[names.NAMESPACED_JOB] = f"{stored.namespace}_{name}"
        toleration = {"key": names.NO_SCHEDULE_TAINT, "operator": "Exists", "effect": "NoSchedule"}
        pod_spec.setdefault("tolerations", []).append(toleration)
    spec["suspend"] = jobset.spec.suspend
    return {
        "metadata": {
            "name": name,
            "labels": template_metadata.get("labels", {}) | labels,
            "annotations": job_annotations,
            "ownerReferences": [stored.as_controller()],
        },
        "spec": spec,
    }


def _labels(jobset: JobSetView, replicated: ReplicatedJob, index: int, name: str) -> dict[str, str]:
    everything = jobset.spec.replicated_jobs
    group = [found for found in everything if found.group_name == replicated.group_name]
    labels = {
        names.JOBSET_NAME: jobset.metadata.name,
        names.JOBSET_UID: jobset.metadata.uid,
        names.REPLICATED_JOB_NAME: replicated.name,
        names.RESTART_ATTEMPT: str(jobset.status.restarts),
        names.REPLICATED_JOB_REPLICAS: str(replicated.replicas),
        names.GLOBAL_REPLICAS: str(sum(found.replicas for found in everything)),
        names.JOB_INDEX: str(index),
        names.JOB_KEY: job_key(jobset.metadata.namespace, name),
        names.JOB_GLOBAL_INDEX: str(_before(everything, replicated) + index),
        names.GROUP_NAME: replicated.group_name,
        names.GROUP_REPLICAS: str(sum(found.replicas for found in group)),
        names.JOB_GROUP_INDEX: str(_before(group, replicated) + index),
    }
    if jobset.spec.coordinator is not None:
        labels[names.COORDINATOR] = coordinator_address(jobset)
    return labels


def coordinator_address(jobset: JobSetView) -> str:
    """Return the address of the coordinator's pod; there must be a coordinator."""
    coordinator = jobset.spec.coordinator
    if coordinator is None:
        raise ValueError(f"the JobSet {jobset.metadata.name!r} has no coordinator")
    host = job_name(jobset.metadata.name, coordinator.replicated_job, coordinator.job_index)
    return f"{host}-{coordinator.pod_index}.{subdomain(jobset)}"


def _before(replicated_jobs: list[ReplicatedJob], until: ReplicatedJob) -> int:
    return sum(found.replicas for found in takewhile(lambda found: found.name != until.name, replicated_jobs))


def _placement(jobset: JobSetView, replicated: ReplicatedJob) -> dict[str, str]:
    """Return the annotations of exclusive placement: of the replicated job, else of the JobSet."""
    found: dict[str, str] = {}
    for given in (jobset.metadata.annotations, replicated.template.metadata.annotations):
        if names.EXCLUSIVE_TOPOLOGY in given:
            for key in (names.EXCLUSIVE_TOPOLOGY, names.NODE_SELECTOR_STRATEGY):
                if key in given:
                    found[key] = given[key]
    return found


def new_service(stored: Stored) -> Json:
    """Return the body of the headless service that gives the pods their host names."""
    jobset = stored.view(JobSetView)
    network = stored.body()["spec"]["network"]
    return {
        "metadata": {"name": subdomain(jobset), "ownerReferences": [stored.as_controller()]},
        "spec": {
            "clusterIP": "None",
            "clusterIPs": ["None"],
            "selector": {names.JOBSET_NAME: jobset.metadata.name},
            "publishNotReadyAddresses": network["publishNotReadyAddresses"],
            "type": "ClusterIP",
        },
    }


def resumed_template(job: Json, template: Json) -> None:
    """Merge the JobSet's pod template into a suspended Job, in place; no key is removed."""
    target = job["spec"]["template"]
    source_metadata, source_spec = template.get("metadata", {}), template.get("spec", {})
    for field in ("labels", "annotations"):
        if source_metadata.get(field):
            target["metadata"][field] = target["metadata"].get(field, {}) | source_metadata[field]
    if source_spec.get("nodeSelector"):
        target["spec"]["nodeSelector"] = target["spec"].get("nodeSelector", {}) | source_spec["nodeSelector"]
    for field in ("tolerations", "schedulingGates"):
        present = target["spec"].get(field, [])
        added = [item for item in source_spec.get(field, []) if item not in present]
        if added:
            target["spec"][field] = present + added
