"""From the Kubernetes API's JSON to what rules read: chips, selectors, conditions; no guesses."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from shared.edges import pods
from shared.edges.pods import Pod, read_workload, view_pod
from shared.kinds.jobset import JOBSET
from shared.kinds.objects import UnexpectedValue
from shared.model import labels
from shared.model.errors import UnsupportedSelector
from shared.model.workloads import PodTemplate, PodView, Requirement, TermKind, TopologyTerm
from tests.refusals import refuses
from tests.rows import rows

TPU = labels.TPU_RESOURCE


def read_template(**spec: Any) -> PodTemplate:
    return view_pod(msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)).template


def container(requests: Any = None, limits: Any = None, **more: Any) -> dict[str, Any]:
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
        "init by maximum": ({"containers": [container(4)], "initContainers": [container(2)] * 3}, 4),
        "a sidecar runs beside": (
            {"containers": [container(2)], "initContainers": [container(2, restartPolicy="Always")]},
            4,
        ),
        "nothing": ({"containers": []}, 0),
        "no number": ({"containers": [container("four")]}, 0),
        "no ASCII number": ({"containers": [container("٤")]}, 0),
        "negative": ({"containers": [container(-4)]}, 0),
    },
)
def test_chips_are_what_the_pod_takes_of_its_host(spec: dict[str, Any], chips: int) -> None:
    assert read_template(**spec).chips == chips


def cpu(amount: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": amount}}, **more}


SIDECAR = cpu("2", restartPolicy="Always")


@pytest.mark.parametrize(
    ("spec", "millis"),
    [
        ({"containers": [cpu("1"), cpu("500m")], "initContainers": [cpu("1")]}, 1500),
        ({"containers": [cpu("1")], "initContainers": [SIDECAR, cpu("3500m")]}, 5500),
        ({"containers": [cpu("1")], "initContainers": [cpu("2500m"), SIDECAR]}, 3000),
        ({"containers": [cpu("1")], "resources": {"requests": {"cpu": "20"}}}, 20_000),
        ({"containers": [cpu("1")], "resources": {"limits": {"cpu": "20"}}}, 1000),
        ({"containers": [{"name": "c"}], "resources": {"limits": {"cpu": "20"}}}, 20_000),
        ({"containers": [cpu("1")], "resources": {"requests": {"cpu": "0"}, "limits": {"cpu": "20"}}}, 0),
        ({"containers": [cpu("1")], "overhead": {"cpu": "250m"}}, 1250),
    ],
)
def test_cpu_is_added_up_as_kubernetes_does(spec: dict[str, Any], millis: int) -> None:
    assert read_template(**spec).cpu_millis == millis


def test_gpus_are_summed_as_chips_are_and_requests_are_the_whole_pod_s() -> None:
    def container(gpus: int, cpu: str, **more: Any) -> dict[str, Any]:
        requests = {"cpu": cpu, "memory": "1Gi"}
        return {"name": "c", "resources": {"limits": {labels.GPU_RESOURCE: gpus}, "requests": requests}} | more

    found = read_template(
        containers=[container(1, "500m"), container(2, "1")],
        initContainers=[container(2, "8"), container(1, "1", restartPolicy="Always")],
    )
    wrong = read_template(containers=[container("many", "1")])  # type: ignore[arg-type]
    assert (found.gpus, found.cpu_millis, found.memory_bytes) == (4, 8000, 3 * 1024**3)
    assert wrong.unreadable_amounts == (f"{labels.GPU_RESOURCE}=many",)


def affinity(*terms: Sequence[tuple[str, str, list[str] | None]]) -> dict[str, Any]:
    found = [
        {
            "matchExpressions": [
                {"key": key, "operator": operator, "values": values} for key, operator, values in term
            ]
        }
        for term in terms
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": found}}}


def test_a_required_value_is_a_selector_and_the_node_selector_wins() -> None:
    ambiguous = [("k", "In", ["a", "b"])]
    chosen = read_template(nodeSelector={"k": "a"}, affinity=affinity(ambiguous))
    required = read_template(affinity=affinity([("k", "In", ["a"]), ("l", "NotIn", ["b"])]))
    exists = read_template(affinity=affinity([("k", "Exists", None)]))

    assert chosen.find_selector("k") == required.find_selector("k") == "a"
    assert not required.selects("l")
    assert exists.selects("k"), "it names the label and no value"
    assert exists.find_selector("k") is None
    with refuses(UnsupportedSelector, match=r"nodeAffinity k: several values.*'a, b'.*valid: one value"):
        read_template(affinity=affinity(ambiguous)).find_selector("k")


@pytest.mark.parametrize(
    "expressions",
    [
        [("k", "In", ["a", "b"]), ("k", "In", ["b", "c"])],
        [("k", "In", ["b"]), ("k", "Exists", None)],
        [("k", "Exists", None), ("k", "In", ["b"])],
    ],
)
def test_two_requirements_on_one_label_hold_together(expressions: list[tuple[str, str, list[str] | None]]) -> None:
    assert read_template(affinity=affinity(expressions)).find_selector("k") == "b"


def test_alternative_terms_require_nothing_for_certain() -> None:
    one, other = [("team", "In", ["a"])], [("team", "In", ["b"])]

    assert not read_template(affinity=affinity(one, other)).selects("team")


@pytest.mark.parametrize("given", [None, {}, {"nodeAffinity": None}, {"nodeAffinity": {}}, {"podAffinity": {}}])
def test_no_required_affinity_is_none(given: dict[str, Any] | None) -> None:
    assert read_template(affinity=given).selection == {}


def view(**pod: Any) -> PodView:
    return view_pod(msgspec.convert(pod, Pod))


def test_the_topology_may_stand_in_an_annotation() -> None:
    assert view(metadata={"annotations": {labels.SLICE_TOPOLOGY: "4x4"}}, spec={}).template.topology == "4x4"


def test_claims_and_the_terms_of_topologies_are_read() -> None:
    selector = {"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "job", "operator": "Exists"}]}
    beside = {"topologyKey": "rack", "labelSelector": selector}
    away = {"topologyKey": "row"}
    everywhere = {"topologyKey": "row", "labelSelector": {}}
    spread = {"topologyKey": "hall", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spec = {
        "affinity": {"podAffinity": {required: [beside]}, "podAntiAffinity": {required: [away, everywhere]}},
        "topologySpreadConstraints": [spread, spread | {"whenUnsatisfiable": "ScheduleAnyway"}],
        "resourceClaims": [{"name": "net", "resourceClaimTemplateName": "all-netdev"}],
    }
    found = view(metadata={}, spec=spec).template

    asked = (Requirement("app", "In", ("a",)), Requirement("job", "Exists"))
    assert found.claims_devices
    assert found.topology_terms == (
        TopologyTerm(kind=TermKind.AFFINITY, key="rack", selector=asked),
        TopologyTerm(kind=TermKind.ANTI_AFFINITY, key="row"),
        TopologyTerm(kind=TermKind.ANTI_AFFINITY, key="row", selector=()),
        TopologyTerm(kind=TermKind.SPREAD, key="hall", domains_min=2),
    )


def test_a_template_s_metadata_may_have_no_value() -> None:
    assert pods.read_template({"metadata": None, "spec": {"nodeSelector": {"a": "b"}}}).selection == {"a": ("b",)}


def test_a_pod_is_read_in_full() -> None:
    pod = {
        "metadata": {
            "name": "train-workers-0-0-x",
            "namespace": "ml",
            "uid": "u",
            "deletionTimestamp": "2027-01-15T08:00:00Z",
            "annotations": {labels.COMPLETION_INDEX: "0"},
            "ownerReferences": [
                {"kind": "Other", "name": "o"},
                {"kind": "Job", "name": "train-workers-0", "controller": True},
            ],
        },
        "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}], "nodeName": "n"},
        "status": {
            "phase": "Pending",
            "nominatedNodeName": "m",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        },
    }
    found = view(**pod)

    assert (found.namespace, found.name, found.uid) == ("ml", "train-workers-0-0-x", "u")
    assert (found.controller_kind, found.controller_name) == ("Job", "train-workers-0")
    assert (found.node_name, found.nominated_node, found.phase) == ("n", "m", "Pending")
    assert found.deleting
    assert found.gates == ("kueue.x-k8s.io/admission",)
    assert found.unschedulable
    assert JOBSET.is_leader(found)


@pytest.mark.parametrize(
    "gates",
    [
        [{"name": "kueue.x-k8s.io/admission"}],
        [{"name": "kueue.x-k8s.io/topology"}, {"name": "kueue.x-k8s.io/admission"}],
        [{}],
        [],
    ],
)
def test_a_pod_has_the_gates_that_keep_it_from_scheduling(gates: list[dict[str, str]]) -> None:
    found = view(metadata={"name": "p"}, spec={"schedulingGates": gates})

    assert found.gates == tuple(gate.get("name", "") for gate in gates)


@pytest.mark.parametrize(
    "condition",
    [
        {"type": "PodScheduled", "status": "True"},
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"},
        {"type": "PodScheduled", "status": "False", "reason": "SchedulerError"},
        {"type": "Ready", "status": "False", "reason": "Unschedulable"},
    ],
)
def test_only_the_scheduler_s_unschedulable_counts(condition: dict[str, str]) -> None:
    assert not view(status={"conditions": [condition]}).unschedulable


@pytest.mark.parametrize(
    ("annotations", "pod_labels", "leader"),
    [
        ({labels.COMPLETION_INDEX: "0"}, {}, True),
        ({}, {labels.COMPLETION_INDEX: "0"}, True),
        ({labels.COMPLETION_INDEX: "1"}, {labels.COMPLETION_INDEX: "0"}, False),
        ({}, {}, False),
    ],
)
def test_the_leader_is_the_pod_of_index_0(
    annotations: dict[str, str], pod_labels: dict[str, str], leader: bool
) -> None:
    assert JOBSET.is_leader(view(metadata={"annotations": annotations, "labels": pod_labels})) is leader


def jobset(status: dict[str, Any] | None = None, **spec: Any) -> Any:
    raw = {"metadata": {"name": "train", "namespace": "ml", "uid": "u"}, "spec": spec, "status": status or {}}
    return read_workload(JOBSET, raw)


def test_a_jobset_s_replicated_jobs_are_read_with_their_defaults() -> None:
    view = jobset(
        replicatedJobs=[
            {"name": "driver", "template": {"spec": {"template": {"spec": {"containers": [container(1)]}}}}},
            {
                "name": "workers",
                "replicas": 3,
                "template": {
                    "metadata": {"annotations": {"a": "b"}},
                    "spec": {
                        "parallelism": 4,
                        "completions": 4,
                        "template": {"spec": {"containers": [container(4)]}},
                    },
                },
            },
        ]
    )
    driver, workers = view.groups

    assert (driver.replicas, driver.pods, driver.pinned, driver.template.chips) == (1, 1, False, 1)
    assert (workers.name, workers.replicas, workers.pods, workers.template.chips) == ("workers", 3, 4, 4)


def test_the_claims_of_a_pod_are_those_of_its_volumes() -> None:
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "shared-data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "token", "projected": {"sources": []}},
    ]

    assert read_template(volumes=volumes).volume_claims == ("shared-data", "p-scratch")
    assert pods.read_template({"spec": {"volumes": volumes}}).volume_claims == ("shared-data",)
    assert read_template(volumes=None).volume_claims == ()


def test_a_claim_s_name_that_is_no_text_is_named() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": 7}}]

    with pytest.raises(UnexpectedValue, match=r"pod template\.spec\.volumes.*claimName"):
        pods.read_template({"spec": {"volumes": volumes}})
