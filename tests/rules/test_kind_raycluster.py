"""Ray's replicas as slices: what each KubeRay and GKE's webhook leave on pods, and refusals."""

from typing import Any

import pytest

from shared.edges.pods import read_template
from shared.kinds.objects import UnexpectedValue
from shared.kinds.raycluster import (
    CLUSTER,
    GROUP,
    NODE_TYPE,
    RAYCLUSTER,
    REPLICA_INDEX,
    REPLICA_NAME,
    REPLICA_OF_WEBHOOK,
)
from shared.model.decisions import Reason
from shared.model.errors import Rejected, SlicesMayMix, SliceUnknown
from shared.model.workloads import PodView, WorkloadView
from tests.refusals import refuses
from tests.rows import rows
from tests.rules.rayclusters import EARLIER_UID, a_group, a_raycluster, a_worker, indexed, name_of, webhooked
from tests.slices import list_slices

ONE_HOST = a_group(numOfHosts=1, topology="2x2")
ONLY_REPLICA = a_group(replicas=1, maxReplicas=1)
ONLY_POD = a_group(replicas=1, maxReplicas=1, numOfHosts=1, topology="2x2")


# --- the four ways to know a replica --------------------------------------------------------------


@rows(
    "group pod_labels affinity name",
    {
        "KubeRay 1.6, two hosts": (a_group(), indexed(1), True, "llm-tpu-1"),
        "a replica comes again": (a_group(), indexed(1, replica="tpu-vwxyz"), True, "llm-tpu-1"),
        "above the replicas: a gap": (a_group(replicas=2), indexed(3), True, "llm-tpu-3"),
        "KubeRay's index is preferred": (a_group(), indexed(1) | webhooked(0), True, "llm-tpu-1"),
        "KubeRay 1.6, one host": (ONE_HOST, {REPLICA_INDEX: "3"}, False, "llm-tpu-3"),
        "one host, with the webhook": (ONE_HOST, {REPLICA_INDEX: "3"} | webhooked(0), False, "llm-tpu-3"),
        "KubeRay 1.5 with the webhook": (a_group(), webhooked(1), True, "llm-tpu-1"),
        "KubeRay 1.5 with the webhook, one host": (ONE_HOST, webhooked(2), False, "llm-tpu-2"),
        "neither, one host: the pod itself": (ONE_HOST, {}, False, "llm-tpu-x7f2k"),
        "neither, the only replica there can be": (ONLY_REPLICA, {}, False, "llm-tpu-0"),
        "the only pod there can be: its successor keeps the pool": (ONLY_POD, {}, False, "llm-tpu-0"),
    },
)
def test_a_replica_is_known_by(
    group: dict[str, Any], pod_labels: dict[str, str], affinity: bool, name: str
) -> None:
    assert name_of(a_worker(pod_labels=pod_labels, affinity=affinity), a_raycluster(group)) == name


def test_hosts_that_say_nothing_of_their_replica_are_refused_with_what_to_install() -> None:
    with refuses(SliceUnknown, match=r"2 hosts.*names its replica.*webhook.*KubeRay 1\.6.*maxReplicas"):
        RAYCLUSTER.find_slice(a_worker(affinity=True), a_raycluster())


@pytest.mark.parametrize(
    "pod_labels",
    [
        {REPLICA_INDEX: "x"},
        {REPLICA_INDEX: ""},
        {REPLICA_INDEX: "-1"},
        {REPLICA_INDEX: "01"},
        {REPLICA_INDEX: "٣"},
        {REPLICA_INDEX: "x", **webhooked(1)},
        {REPLICA_OF_WEBHOOK: "gpu-1"},
        {REPLICA_OF_WEBHOOK: "tpu"},
        {REPLICA_OF_WEBHOOK: "1"},
    ],
)
def test_a_label_that_is_no_slot_is_a_forgery_and_no_lack_of_one(pod_labels: dict[str, str]) -> None:
    assert name_of(a_worker(pod_labels=pod_labels, affinity=True)) is None


# --- pods that are not of the cluster -------------------------------------------------------------


@pytest.mark.parametrize(
    "overrides",
    [{"controller_name": "other"}, {"controller_kind": "Job"}, {"controller_kind": "", "controller_name": ""}],
)
def test_a_pod_is_ray_s_only_when_the_cluster_of_its_label_controls_it(overrides: dict[str, Any]) -> None:
    pod = a_worker(pod_labels=indexed(0), affinity=True, **overrides)

    assert RAYCLUSTER.find_owner(pod) == ""
    assert RAYCLUSTER.find_owner_uid(pod) == ""
    assert name_of(pod) is None
    own = a_worker(controller_uid=EARLIER_UID)
    assert (RAYCLUSTER.find_owner(own), RAYCLUSTER.find_owner_uid(own)) == ("llm", EARLIER_UID)


def test_a_group_that_the_spec_no_longer_has_has_no_slices() -> None:
    assert name_of(a_worker(group="old", pod_labels=indexed(0), affinity=True)) is None


@pytest.mark.parametrize("fields", [{"suspend": True}, {"replicas": 0}])
def test_the_last_pods_of_a_group_of_which_nothing_is_wanted_ask_for_nothing(fields: dict[str, Any]) -> None:
    assert name_of(a_worker(pod_labels=indexed(0), affinity=True), a_raycluster(a_group(**fields))) is None


# --- two replicas never share a pool --------------------------------------------------------------


def refusal_of(pod: PodView, workload: WorkloadView) -> Reason | None:
    try:
        RAYCLUSTER.find_slice(pod, workload)
    except Rejected as error:
        return error.reason
    return None


TWO, MIX = [a_group()], Reason.SLICES_MAY_MIX
OTHER_SHAPE = a_group("more", maxReplicas=1, topology="4x4", numOfHosts=4)


def pin(value: str, key: str = "example.com/slice") -> dict[str, Any]:
    return {"selector": {key: value}}


@rows(
    "groups given refused",
    {
        "labels alone keep nothing apart": (TWO, {}, MIX),
        "the webhook's affinities do": (TWO, {"affinity": True}, None),
        "a pin to the slice": (TWO, pin("llm-tpu-1"), None),
        "with its namespace": (TWO, pin("default_llm-tpu-1"), None),
        "a pin to another slice": (TWO, pin("llm-tpu-0"), MIX),
        "a pin that the next has not": (TWO, pin("tpu-abcde", REPLICA_NAME), MIX),
        "a pin that others share": (TWO, pin("1", REPLICA_INDEX), MIX),
        "one replica now, more allowed": ([a_group(replicas=1)], {}, MIX),
        "one replica for ever": ([ONLY_REPLICA], {}, None),
        "two groups of one shape": ([ONLY_REPLICA, a_group("more", maxReplicas=1)], {}, MIX),
        "two shapes": ([ONLY_REPLICA, OTHER_SHAPE], {}, None),
        "a group that can never have any": ([ONLY_REPLICA, a_group("off", maxReplicas=0)], {}, None),
        "no upper bound": ([a_group(maxReplicas=None)], {}, MIX),
        "one host cannot be shared": ([ONE_HOST], {}, None),
    },
)
def test_hosts_of_two_replicas_are_kept_apart_or_refused(
    groups: list[dict[str, Any]], given: dict[str, Any], refused: Reason | None
) -> None:
    assert refusal_of(a_worker(pod_labels=indexed(1), **given), a_raycluster(*groups)) is refused


def test_the_refusal_says_what_to_install_and_names_the_slice() -> None:
    with refuses(SlicesMayMix, match=r"two replicas on separate node pools.*webhook.*podAntiAffinity.*llm-tpu-1"):
        RAYCLUSTER.find_slice(a_worker(pod_labels=indexed(1)), a_raycluster())


# --- which pods are leaders -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod_labels", "is_leader"),
    [
        (indexed(1, host=0), True),
        (indexed(1, host=1), False),
        ({REPLICA_INDEX: "2"}, True),
        (webhooked(1), True),
        ({}, True),
        ({REPLICA_INDEX: "x"}, True),
    ],
)
def test_the_first_host_is_the_leader_and_where_none_knows_all_are(
    pod_labels: dict[str, str], is_leader: bool
) -> None:
    pod = a_worker(pod_labels=pod_labels)

    assert RAYCLUSTER.is_leader(pod) is is_leader


# --- the spec -------------------------------------------------------------------------------------


def test_a_cluster_without_a_spec_has_no_groups_and_a_list_is_no_spec() -> None:
    found = RAYCLUSTER.read({"metadata": {"name": "llm"}}, read_template)

    assert (found.groups, found.name, found.suspended) == ((), "llm", False)
    with pytest.raises(UnexpectedValue):
        RAYCLUSTER.read({"spec": []}, read_template)


def test_all_wanted_slices_are_listed_with_the_labels_of_all_their_hosts() -> None:
    workload = a_raycluster(
        a_group(), ONE_HOST | {"groupName": "solo", "replicas": 1}, a_group("off", suspend=True)
    )

    found = {each.name: each.group.template.labels for each in list_slices(workload)}

    base = {CLUSTER: "llm", NODE_TYPE: "worker"}
    assert found == {
        "llm-tpu-0": {**base, GROUP: "tpu"},
        "llm-tpu-1": {**base, GROUP: "tpu"},
        "llm-solo-0": {**base, GROUP: "solo"},
    }
