"""Admission of JobSets, and JobSet's webhooks for pods: a leader gets affinities, a follower waits.

The pod templates are not checked: when a template is valid for no Job, the controller finds out and
writes an Event. Source: https://github.com/kubernetes-sigs/jobset/tree/v0.11.1
(pkg/webhooks/jobset_webhook.go, pkg/webhooks/pod_webhook.go, config/components/crd).
"""

import copy
import re
from collections.abc import Iterator

from standins.cluster.kinds import JOBSET, NODE, POD, Json
from standins.cluster.objects import (
    COMPLETION_INDEX,
    EXCLUSIVE_TOPOLOGY,
    JOB_KEY,
    JOBSET_NAME,
    NODE_SELECTOR_STRATEGY,
    PRIORITY,
    find_controller,
    list_containers,
    write_quantities,
)
from standins.cluster.refusals import (
    PLAYED_OF_JOBSETS,
    PLAYED_OF_REPLICATED_JOBS,
    Problem,
    denied,
    list_not_played,
    not_found,
    refuse,
)
from standins.cluster.store import Store, Stored
from standins.kit.fitting import is_finished

_WEBHOOK = "vjobset.kb.io"
_LABEL_MAX = 63
_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_RULE = "a DNS-1035 label must be lower case letters, digits and '-', with a letter first and no '-' last"
_IMMUTABLE = ("failurePolicy", "network", "startupPolicy", "successPolicy")
_CHANGEABLE_WHEN_SUSPENDED = ("nodeSelector", "tolerations", "schedulingGates")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def admit_new(body: Json) -> None:
    """Default and check a new JobSet in place.

    Raises ApiError: 403 (its webhook), 422 (its schema, or not played here).
    """
    spec = body.setdefault("spec", {})
    _default_by_schema(spec)
    _default_by_webhook(spec)
    for replicated in spec.get("replicatedJobs", []):
        _write_as_decoded(replicated)
    name = body["metadata"]["name"]
    refuse(JOBSET, name, _list_schema_problems(spec))
    if problems := list(_list_webhook_problems(name, spec)):
        raise denied(_WEBHOOK, "\n".join(problems))


def admit_change(old: Json, new: Json) -> None:
    """Default a changed JobSet; refuse changes of replicated jobs, except while suspended.

    The defaulting webhook is not called for changes. So a client that sends its own manifest again
    removes the webhook's defaults, and quantities are stored as they are sent.
    Source: https://github.com/kubernetes-sigs/jobset/blob/v0.11.1/config/components/webhook/manifests.yaml

    Raises ApiError: 403 (its webhook) or 422 (its schema), naming the field.
    """
    before, after = old["spec"], new.setdefault("spec", {})
    _default_by_schema(after)
    changed = (field for field in _IMMUTABLE if before.get(field) != after.get(field, before.get(field)))
    problems = [(f"spec.{field}", "Invalid value: Value is immutable") for field in changed]
    refuse(JOBSET, new["metadata"]["name"], problems)
    suspended = bool(before.get("suspend") or after.get("suspend"))
    fixed = _take_fixed_part(before, suspended=suspended) == _take_fixed_part(after, suspended=suspended)
    if not fixed or before.get("managedBy") != after.get("managedBy"):
        field = "managedBy" if fixed else "replicatedJobs"
        raise denied(_WEBHOOK, f"spec.{field}: Invalid value: field is immutable")


def _take_fixed_part(spec: Json, *, suspended: bool) -> list[Json]:
    replicated_jobs: list[Json] = copy.deepcopy(spec.get("replicatedJobs", []))
    for replicated in replicated_jobs:
        _write_as_decoded(replicated)
        template = replicated["template"]["spec"]["template"]
        if suspended:
            for field in ("labels", "annotations"):
                template["metadata"].pop(field, None)
            for field in _CHANGEABLE_WHEN_SUSPENDED:
                template["spec"].pop(field, None)
    return replicated_jobs


def _write_as_decoded(replicated: Json) -> None:
    """Write a replicated job like one that was decoded into API types: no struct is absent."""
    job_template = replicated["template"]
    pod_template = job_template["spec"]["template"]
    for template in (job_template, pod_template):
        template.setdefault("metadata", {})
    for container in list_containers(pod_template["spec"]):
        container.setdefault("resources", {})
    write_quantities(pod_template["spec"])


def _default_by_schema(spec: Json) -> None:
    for replicated in spec.get("replicatedJobs", []):
        replicated.setdefault("replicas", 1)
        replicated.setdefault("groupName", "default")
        replicated["template"].setdefault("spec", {}).setdefault("template", {}).setdefault("spec", {})
    if "failurePolicy" in spec:
        spec["failurePolicy"].setdefault("maxRestarts", 0)
        spec["failurePolicy"].setdefault("restartStrategy", "Recreate")


def _default_by_webhook(spec: Json) -> None:
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    for replicated in spec.get("replicatedJobs", []):
        job = replicated["template"]["spec"]
        job.setdefault("completionMode", "Indexed")
        job["template"]["spec"].setdefault("restartPolicy", "OnFailure")


def _list_schema_problems(spec: Json) -> Iterator[Problem]:
    yield from list_not_played(PLAYED_OF_JOBSETS, spec, "spec")
    if spec.get("ttlSecondsAfterFinished", 0) < 0:
        yield "spec.ttlSecondsAfterFinished", "Invalid value: should be greater than or equal to 0"
    names: set[str] = set()
    for index, replicated in enumerate(spec.get("replicatedJobs", [])):
        field = f"spec.replicatedJobs[{index}]"
        yield from list_not_played(PLAYED_OF_REPLICATED_JOBS, replicated, field)
        if replicated["name"] in names:
            yield field, f'Duplicate value: {{"name":"{replicated["name"]}"}}'
        names.add(replicated["name"])


def _list_webhook_problems(jobset: str, spec: Json) -> Iterator[str]:
    names = [replicated["name"] for replicated in spec.get("replicatedJobs", [])]
    for index, replicated in enumerate(spec.get("replicatedJobs", [])):
        yield from _list_name_problems(jobset, replicated, f"spec.replicatedJobs[{index}]")
    for target in spec["successPolicy"].get("targetReplicatedJobs", []):
        if target not in names:
            yield f"invalid replicatedJob name '{target}' does not appear in .spec.ReplicatedJobs"
    coordinator = spec.get("coordinator", {}).get("replicatedJob")
    if coordinator is not None and coordinator not in names:
        yield f"coordinator replicatedJob {coordinator} does not exist"


def _list_name_problems(jobset: str, replicated: Json, field: str) -> Iterator[str]:
    job = f"{jobset}-{replicated['name']}-{replicated['replicas'] - 1}"
    pod = f"{job}-{replicated['template']['spec'].get('completions', 1) - 1}-abcde"
    for what, name in (("job", job), ("pod", pod)):
        if len(name) > _LABEL_MAX:
            why = f"JobSet name is too long, {what} names generated for this JobSet will exceed 63 characters"
            yield f'{field}.name: Invalid value: "{job}": {why}'
    if not _DNS_LABEL.fullmatch(job):
        yield f'{field}.name: Invalid value: "{job}": {_LABEL_RULE}'


def admit_new_pod(store: Store, body: Json) -> None:
    """Change and check a new pod of a JobSet in place; other pods are left alone.

    Raises ApiError: 403, when a follower may not exist yet.
    https://jobset.sigs.k8s.io/docs/concepts/#exclusive-job-to-topology-placement
    """
    metadata = body["metadata"]
    annotations = metadata.get("annotations", {})
    # JobSet's manifests send only pods with this label to the webhooks.
    if JOBSET_NAME not in metadata.get("labels", {}) or JOBSET_NAME not in annotations:
        return
    if NODE_SELECTOR_STRATEGY in annotations:
        return
    metadata["labels"][PRIORITY] = str(body["spec"].get("priority", 0))
    topology_key = annotations.get(EXCLUSIVE_TOPOLOGY)
    if topology_key is None:
        return
    if annotations.get(COMPLETION_INDEX) == "0":
        _add_affinities(body, topology_key)
    else:
        _follow_leader(store, body, topology_key)


def _add_affinities(body: Json, topology_key: str) -> None:
    labels = body["metadata"]["labels"]
    job_key = labels.get(JOB_KEY, "")
    own = [{"key": JOB_KEY, "operator": "In", "values": [job_key]}]
    others = [
        {"key": JOB_KEY, "operator": "Exists"},
        {"key": JOB_KEY, "operator": "NotIn", "values": [job_key]},
        {"key": PRIORITY, "operator": "In", "values": [labels[PRIORITY]]},
    ]
    affinity = body["spec"].setdefault("affinity", {})
    for group, expressions in (("podAffinity", own), ("podAntiAffinity", others)):
        term = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology_key}
        terms = affinity.setdefault(group, {}).setdefault(_REQUIRED, [])
        terms.append(term | {"namespaceSelector": {}})


def _follow_leader(store: Store, body: Json, topology_key: str) -> None:
    selector: Json = body["spec"].get("nodeSelector", {})
    leader = _find_leader(store, body)
    node = leader.fields["spec.nodeName"] if leader is not None else ""
    if node:
        selector = body["spec"].setdefault("nodeSelector", {})
        selector[topology_key] = _find_topology(store, node, topology_key)
    if not selector:
        raise denied("vpod.kb.io", "follower pod node selector not set")
    if topology_key not in selector:
        why = "follower pod node selector for topology domain not found. missing selector: "
        raise denied("vpod.kb.io", why + topology_key)
    if not node:
        why = "leader pod not yet scheduled, not creating follower pod. this is an expected, transient error"
        raise denied("vpod.kb.io", why)


def _find_leader(store: Store, body: Json) -> Stored | None:
    siblings = store.dependents(find_controller(body).get("uid", ""))
    leaders = [
        pod
        for pod in siblings
        if pod.kind is POD
        and pod.json["metadata"].get("annotations", {}).get(COMPLETION_INDEX) == "0"
        and not pod.going
        and not is_finished(pod.json)
    ]
    return leaders[0] if len(leaders) == 1 else None


def _find_topology(store: Store, name: str, topology_key: str) -> str:
    node = store.get(NODE, "", name)
    if node is None:
        raise not_found(NODE, name)
    if topology_key not in node.labels:
        raise denied("mpod.kb.io", f"node does not have topology label: {topology_key}")
    return node.labels[topology_key]
