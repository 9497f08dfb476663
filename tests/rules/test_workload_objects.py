"""From the Kubernetes API's JSON to what rules read: chips, selectors, conditions; no guesses."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from shared.edges import pods
from shared.edges.pods import Pod, view_pod
from shared.kinds.jobset import JOBSET
from shared.kinds.read import UnexpectedValue
from shared.model import labels
from shared.model.decisions import Reason
from shared.model.workloads import PodTemplate, PodView, Requirement, TermKind, TopologyTerm
from tests.demands import refuses
from tests.rows import rows
from tests.rules.workloads import Json

TPU = labels.TPU_RESOURCE


def view(**pod: Any) -> PodView:
    return view_pod(msgspec.convert(pod, Pod))


def read_template(**spec: Any) -> PodTemplate:
    return view(metadata={"name": "p"}, spec=spec).template


def container(requests: Any = None, limits: Any = None, **more: Any) -> Json:
    resources = {
        key: {TPU: value} for key, value in (("requests", requests), ("limits", limits)) if value is not None
    }
    return {"name": "c", "resources": resources, **more}


@rows(
    "spec chips",
    {
        "one container": ({"containers": [container(4, 4)]}, 4),
        "quantities are texts": ({"containers": [container("4", "4")]}, 4),
        "Ironwood's two halves": ({"containers": [container(2), container(2)]}, 4),
        "limits only": ({"containers": [container(None, 4)]}, 4),
        "a container without resources": ({"containers": [container(4), {"name": "log"}]}, 4),
        "init is larger": ({"containers": [container(4)], "initContainers": [container(8)]}, 8),
        "nothing": ({"containers": []}, 0),
        "no number": ({"containers": [container("four")]}, 0),
        "no ASCII number": ({"containers": [container("٤")]}, 0),
        "negative": ({"containers": [container(-4)]}, 0),
    },
)
def test_chips_are_what_the_pod_takes_of_its_host(spec: Json, chips: int) -> None:
    assert read_template(**spec).chips == chips


def cpu(amount: str, **more: Any) -> Json:
    return {"name": "c", "resources": {"requests": {"cpu": amount}}, **more}


def of_gpus(gpus: Any, cpu: str, **more: Any) -> Json:
    requests = {"cpu": cpu, "memory": "1Gi"}
    return {"name": "c", "resources": {"limits": {labels.GPU_RESOURCE: gpus}, "requests": requests}} | more


SIDECAR = cpu("2", restartPolicy="Always")


@pytest.mark.parametrize(
    ("spec", "millis"),
    [
        ({"containers": [cpu("1"), cpu("500m")], "initContainers": [cpu("1")] * 3}, 1500),
        ({"containers": [cpu("1")], "initContainers": [SIDECAR, cpu("3500m")]}, 5500),
        ({"containers": [cpu("1")], "initContainers": [cpu("2500m"), SIDECAR]}, 3000),
        ({"containers": [cpu("1")], "resources": {"requests": {"cpu": "20"}}}, 20_000),
        ({"containers": [cpu("1")], "resources": {"limits": {"cpu": "20"}}}, 1000),
        ({"containers": [{"name": "c"}], "resources": {"limits": {"cpu": "20"}}}, 20_000),
        ({"containers": [cpu("1")], "resources": {"requests": {"cpu": "0"}, "limits": {"cpu": "20"}}}, 0),
        ({"containers": [cpu("1")], "overhead": {"cpu": "250m"}}, 1250),
    ],
)
def test_cpu_is_added_up_as_kubernetes_does(spec: Json, millis: int) -> None:
    assert read_template(**spec).cpu_millis == millis


@rows(
    "annotations names millis",
    {
        "it asks for the usual": ({}, ("c",), 1250),
        "a limit counts as a request": ({"cpu-limit": "2"}, ("c",), 3000),
        "the request counts before the limit": ({"cpu-limit": "2", "cpu-request": "1"}, ("c",), 2000),
        "no limit is no request": ({"cpu-limit": "0"}, ("c",), 1250),
        "it is there already": ({}, ("c", "gke-gcsfuse-sidecar"), 1000),
        "none is to be added": ({"volumes": "false"}, ("c",), 1000),
    },
)
def test_the_sidecar_of_storage_fuse_counts_before_gke_adds_it(
    annotations: dict[str, str], names: tuple[str, ...], millis: int
) -> None:
    marks = {f"gke-gcsfuse/{key}": text for key, text in ({"volumes": "true"} | annotations).items()}
    containers = [cpu("1") | {"name": name} for name in names[:1]] + [{"name": name} for name in names[1:]]
    found = view(metadata={"name": "p", "annotations": marks}, spec={"containers": containers})

    assert found.template.cpu_millis == millis


def test_gpus_are_summed_as_chips_are_and_requests_are_the_whole_pod_s() -> None:
    found = read_template(
        containers=[of_gpus(1, "500m"), of_gpus(2, "1")],
        initContainers=[of_gpus(2, "8"), of_gpus(1, "1", restartPolicy="Always")],
    )
    wrong = read_template(containers=[of_gpus("many", "1")])
    huge = {"resources": {"limits": {"hugepages-2Mi": "1Gi"}}}

    assert (found.gpus, found.cpu_millis, found.memory_bytes) == (4, 8000, 3 * 1024**3)
    assert wrong.unreadable_amounts == (f"{labels.GPU_RESOURCE}=many",)
    assert read_template(containers=[container(4), huge]).unreadable_amounts == ("hugepages-2Mi=1Gi",)
    assert read_template(containers=[container(1_000_000)]).chips == 1_000_000
    assert read_template(containers=[huge]).unreadable_amounts == (), (
        "those of other pods are none of our business"
    )


Term = Sequence[tuple[str, str, list[str] | None]]


def affinity(*terms: Term) -> Json:
    found = [
        {
            "matchExpressions": [
                {"key": key, "operator": operator, "values": values} for key, operator, values in term
            ]
        }
        for term in terms
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": found}}}


AMBIGUOUS: Term = [("k", "In", ["a", "b"])]
NO_TERMS: list[Json | None] = [None, {}, {"nodeAffinity": None}, {"nodeAffinity": {}}, {"podAffinity": {}}]


@rows(
    "spec selects value",
    {
        "the node selector wins": ({"nodeSelector": {"k": "b"}, "affinity": affinity(AMBIGUOUS)}, True, "b"),
        "a required value": ({"affinity": affinity([("k", "In", ["b"]), ("l", "NotIn", ["b"])])}, True, "b"),
        "two that hold together": ({"affinity": affinity([*AMBIGUOUS, ("k", "In", ["b", "c"])])}, True, "b"),
        "a value that exists": ({"affinity": affinity([("k", "In", ["b"]), ("k", "Exists", None)])}, True, "b"),
        "it exists with a value": ({"affinity": affinity([("k", "Exists", None), ("k", "In", ["b"])])}, True, "b"),
        "the label and no value": ({"affinity": affinity([("k", "Exists", None)])}, True, None),
        "none that is wrong": ({"affinity": affinity([("k", "NotIn", ["b"])])}, False, None),
        "one of two terms": ({"affinity": affinity([("k", "In", ["a"])], [("k", "In", ["b"])])}, False, None),
        **{f"no terms: {each}": ({"affinity": each}, False, None) for each in NO_TERMS},
    },
)
def test_a_required_value_is_a_selector(spec: Json, selects: bool, value: str | None) -> None:
    found = read_template(**spec)

    assert (found.selects("k"), found.find_selector("k")) == (selects, value)
    both = read_template(affinity=affinity([("k", "In", ["b"]), ("l", "NotIn", ["b"])], [("k", "Exists", None)]))
    in_b, not_b = Requirement("k", "In", ("b",)), Requirement("l", "NotIn", ("b",))
    assert both.node_terms == ((in_b, not_b), (Requirement("k", "Exists"),))
    with refuses(Reason.SELECTOR_UNSUPPORTED, match=r"nodeAffinity k: several values.*'a, b'.*valid: one value"):
        read_template(affinity=affinity(AMBIGUOUS)).find_selector("k")


def test_claims_and_the_terms_of_topologies_are_read() -> None:
    selector = {"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "job", "operator": "Exists"}]}
    away = [{"topologyKey": "row"}, {"topologyKey": "row", "labelSelector": {}}]
    spread = {"topologyKey": "hall", "whenUnsatisfiable": "DoNotSchedule"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    wished = [{"weight": 1, "podAffinityTerm": away[0]}]
    beside = {
        required: [{"topologyKey": "rack", "labelSelector": selector}],
        "preferredDuringSchedulingIgnoredDuringExecution": wished,
    }
    found = read_template(
        affinity={"podAffinity": beside, "podAntiAffinity": {required: away}},
        topologySpreadConstraints=[spread, {"topologyKey": "yard", "whenUnsatisfiable": "ScheduleAnyway"}],
        resourceClaims=[{"name": "net", "resourceClaimTemplateName": "all-netdev"}],
    )

    asked = (Requirement("app", "In", ("a",)), Requirement("job", "Exists"))
    assert found.claims_devices
    assert found.topology_terms == (
        TopologyTerm(kind=TermKind.AFFINITY, key="rack", selector=asked),
        TopologyTerm(kind=TermKind.ANTI_AFFINITY, key="row"),
        TopologyTerm(kind=TermKind.ANTI_AFFINITY, key="row", selector=()),
        TopologyTerm(kind=TermKind.SPREAD, key="hall"),
    )


def test_a_label_is_read_by_its_present_name_unless_both_names_ask_for_something_else() -> None:
    old, one, two = (
        read_template(nodeSelector={"beta.kubernetes.io/arch": "arm64"} | more).selection
        for more in ({}, {labels.ARCHITECTURE: "arm64"}, {labels.ARCHITECTURE: "amd64"})
    )

    assert (old, one, len(two)) == ({labels.ARCHITECTURE: ("arm64",)}, old, 2)


def a_condition(reason: str = "Unschedulable", *, of: str = "PodScheduled", status: str = "False") -> Json:
    return {"conditions": [{"type": of, "status": status, "reason": reason}]}


def test_a_pod_is_read_in_full() -> None:
    job = {"kind": "Job", "name": "train-workers-0", "controller": True}
    metadata = {
        "name": "train-workers-0-0-x",
        "namespace": "ml",
        "uid": "u",
        "deletionTimestamp": "2027-01-15T08:00:00Z",
        "annotations": {labels.COMPLETION_INDEX: "0", labels.SLICE_TOPOLOGY: "4x4"},
        "ownerReferences": [{"kind": "Other", "name": "o"}, job],
    }
    spec = {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}, {"name": "x"}, {}], "nodeName": "n"}
    status = {"phase": "Pending", "nominatedNodeName": "m"} | a_condition()
    found = view(metadata=metadata, spec=spec, status=status)

    assert (found.namespace, found.name, found.uid) == ("ml", "train-workers-0-0-x", "u")
    assert (found.controller_kind, found.controller_name) == ("Job", "train-workers-0")
    assert (found.node_name, found.phase) == ("n", "Pending")
    assert (found.deleting, found.unschedulable, JOBSET.is_leader(found)) == (True, True, True)
    assert found.template.topology == "4x4"


@rows(
    "held spec status",
    {
        "a gate": (True, {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}, {}),
        "a gate without a name": (True, {"schedulingGates": [{}]}, {}),
        "the room of others": (True, {}, {"nominatedNodeName": "m"}),
        "no gate": (False, {"schedulingGates": []}, {}),
    },
)
def test_a_gate_or_a_nomination_holds_a_pod(held: bool, spec: Json, status: Json) -> None:
    found = view(metadata={"name": "p"}, spec=spec, status=a_condition() | status)

    assert (found.held, found.waits) == (held, not held)


@rows(
    "status",
    {
        "scheduled": a_condition("", status="True"),
        "gated": a_condition("SchedulingGated"),
        "an error": a_condition("SchedulerError"),
        "not ready": a_condition(of="Ready"),
    },
)
def test_only_the_scheduler_s_unschedulable_counts(status: Json) -> None:
    assert not view(status=status).unschedulable


@pytest.mark.parametrize(
    ("note", "label", "leader"), [("0", None, True), (None, "0", True), ("1", "0", False), (None, None, False)]
)
def test_the_leader_is_the_pod_of_index_0(note: str | None, label: str | None, leader: bool) -> None:
    notes, own = ({labels.COMPLETION_INDEX: index} if index else {} for index in (note, label))

    assert JOBSET.is_leader(view(metadata={"annotations": notes, "labels": own})) is leader


def test_the_claims_of_a_pod_are_those_of_its_volumes() -> None:
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "shared-data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "token", "projected": {"sources": []}},
    ]
    wrong = [{"name": "data", "persistentVolumeClaim": {"claimName": 7}}]

    assert read_template(volumes=volumes).volume_claims == ("shared-data", "p-scratch")
    assert pods.read_template({"metadata": None, "spec": {"volumes": volumes}}).volume_claims == ("shared-data",)
    assert read_template(volumes=None).volume_claims == ()
    with pytest.raises(UnexpectedValue, match="claimName"):
        pods.read_template({"spec": {"volumes": wrong}})
