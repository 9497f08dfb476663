"""The pool that is asked for: a test per feature, and each body in the official client's terms."""

from typing import Any

import pytest
from google.cloud.container_v1.types import NodePool
from google.protobuf import json_format

from shared.kinds import jobset as jobset_keys
from shared.model import labels
from shared.model.errors import LabelBudgetExceeded
from shared.model.names import Owner, Try, build_name, parse_owner
from shared.model.needs import Tier
from shared.model.workloads import Toleration
from shared.settings import Settings
from shared.shapes.catalogue import TPUS
from tests.builders import JOBSET_UID, a_claim, a_jobset, a_pod, settings
from tests.demands import a_demand, a_pool_body
from tests.refusals import refuses

CREATED_AT = 1_800_000_000
IMAGE, KEY = "projects/p/global/images/i", "projects/p/locations/us/keyRings/r/cryptoKeys/k"
EVERYTHING: dict[str, Any] = {
    "node_secondary_boot_disk": IMAGE,
    "node_additional_networks": ("n:s",),
    "node_service_account": "nodes@p.iam",
    "node_tags": ("a",),
    "node_disk_type": "pd-ssd",
    "node_disk_size_gb": 200,
    "node_boot_disk_kms_key": KEY,
    "node_confidential_storage": True,
    "resource_labels": {"a": "b"},
    "copy_labels": ("team",),
}
"""Settings of all that a pool may have."""


def build(use: Settings | None = None, *, pod: Any = None, jobset: Any = None, **shape: Any) -> dict[str, Any]:
    """Build a demand's pool; the official message class must know every field and value of it."""
    use = use or settings()
    demand = a_demand(pod=pod, jobset=jobset, use=use, **shape)
    empty = demand.way.tier == Tier.FLEX_START
    claim = a_claim(namespace=pod.namespace, name=pod.controller_name.rsplit("-", 2)[0]) if pod else a_claim()
    body = a_pool_body(demand, use=use, claim=claim, empty=empty, created_at=CREATED_AT)
    message = NodePool.pb(NodePool())
    json_format.ParseDict(body, message, ignore_unknown_fields=False)
    text = json_format.MessageToDict(message)
    assert text["name"] == body["name"]
    return body


def test_the_plain_pool_is_exactly_this() -> None:
    body = build()
    node_labels = body["config"].pop("labels")

    assert parse_owner(node_labels) == Owner(
        kind="JobSet",
        namespace="default",
        name="train",
        uid=JOBSET_UID,
        need=a_claim().need,
        slot=0,
        created_at=CREATED_AT,
    )
    assert all(labels.is_owner_key(key) for key in node_labels)
    assert body == {
        "name": build_name(a_claim(), 0),
        "config": {
            "machineType": "ct6e-standard-4t",
            "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
            "shieldedInstanceConfig": {"enableIntegrityMonitoring": True, "enableSecureBoot": True},
            "workloadMetadataConfig": {"mode": "GKE_METADATA"},
            "resourceLabels": {"tpu-provisioner-namespace": "default", "tpu-provisioner-workload": "train"},
        },
        "initialNodeCount": 4,
        "locations": ["us-east5-b"],
        "management": {"autoRepair": True, "autoUpgrade": True},
        "maintenancePolicy": {"exclusionUntilEndOfSupport": {"enabled": True}},
        "upgradeSettings": {"maxSurge": 1},
        "maxPodsConstraint": {"maxPodsPerNode": "15"},
        "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
    }


TOLERATED = (Toleration(key=labels.SPOT, operator="Equal", value="true", effect="NoSchedule"),)


def test_spot_machines_carry_their_taint_only_if_their_pods_tolerate_it() -> None:
    """On Standard clusters GKE adds no spot taint; pods may select spot without a toleration."""
    config = build(selectors={labels.SPOT: "true"})["config"]
    assert (config["spot"], "taints" in config) == (True, False)

    config = build(selectors={labels.SPOT: "true"}, tolerations=TOLERATED)["config"]

    assert config["spot"] is True
    assert config["taints"] == [{"key": labels.SPOT, "value": "true", "effect": "NO_SCHEDULE"}]
    assert "reservationAffinity" not in config


@pytest.mark.parametrize(
    ("selectors", "value"),
    [
        ({}, "r"),
        ({labels.RESERVATION_PROJECT: "other-project"}, "projects/other-project/reservations/r"),
        ({labels.RESERVATION_BLOCKS: "b"}, "projects/p/reservations/r/reservationBlocks/b"),
        (
            {labels.RESERVATION_BLOCKS: "b", labels.RESERVATION_SUBBLOCKS: "s"},
            "projects/p/reservations/r/reservationBlocks/b/reservationSubBlocks/s",
        ),
        (
            {labels.RESERVATION_PROJECT: "other-project", labels.RESERVATION_BLOCKS: "b"},
            "projects/other-project/reservations/r/reservationBlocks/b",
        ),
    ],
)
def test_a_reservation_is_consumed_by_name_or_full_path(selectors: dict[str, str], value: str) -> None:
    use = settings(allowed_reservations=("*", "other-project/*"))
    config = build(use, selectors={labels.RESERVATION_NAME: "r", **selectors})["config"]

    assert config["reservationAffinity"] == {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [value],
    }
    assert "spot" not in config


def test_forced_on_demand_has_neither_spot_nor_reservation() -> None:
    for selectors in ({labels.SPOT: "true"}, {labels.RESERVATION_NAME: "r"}, {labels.FLEX_START: "true"}):
        body = build(settings(force_on_demand=True), selectors=selectors)
        assert not {"spot", "reservationAffinity", "flexStart", "taints"} & set(body["config"])
        assert body["initialNodeCount"] == 4


def test_where_no_release_channel_forbids_it_upgrades_are_off() -> None:
    body = a_pool_body(a_demand(), use=settings(), on_channel=False)

    assert body["management"] == {"autoRepair": True, "autoUpgrade": False}
    assert "maintenancePolicy" not in body


def test_flex_start_begins_empty_and_is_filled_by_gke() -> None:
    body = build(selectors={labels.FLEX_START: "true", labels.MAX_RUN_DURATION: "3600"})
    config = body["config"]

    assert (config["flexStart"], config["maxRunDuration"]) == (True, "3600s")
    assert config["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert config["labels"][labels.MAX_RUN_DURATION] == "3600"
    assert body["initialNodeCount"] == 0
    assert body["autoscaling"] == {"enabled": True, "maxNodeCount": 4, "locationPolicy": "ANY"}
    assert body["management"] == {"autoRepair": False, "autoUpgrade": True}
    assert body["upgradeSettings"] == {"strategy": "SHORT_LIVED"}
    assert "maintenancePolicy" not in body


WATCHED = {"enableIntegrityMonitoring": True}


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        pytest.param({"node_tags": ("a", "b")}, {"tags": ["a", "b"]}, id="network tags"),
        pytest.param({"node_disk_size_gb": 200}, {"diskSizeGb": 200}, id="the size of the disk"),
        pytest.param(
            {"node_boot_disk_kms_key": KEY, "node_confidential_storage": True},
            {"bootDiskKmsKey": KEY, "enableConfidentialStorage": True},
            id="boot disks are encrypted and confidential",
        ),
        pytest.param(
            {"node_secondary_boot_disk": IMAGE},
            {
                "secondaryBootDisks": [{"diskImage": IMAGE, "mode": "CONTAINER_IMAGE_CACHE"}],
                "gcfsConfig": {"enabled": True},
            },
            id="a secondary boot disk caches images and turns streaming on",
        ),
        *(
            pytest.param(
                {"node_secure_boot": secure},
                {"shieldedInstanceConfig": WATCHED | {"enableSecureBoot": secure}},
                id=f"secure boot {secure}, and integrity is watched",
            )
            for secure in (True, False)
        ),
        pytest.param({"node_workload_identity": False}, {"workloadMetadataConfig": None}, id="no identity"),
    ],
)
def test_the_nodes_are_as_the_settings_say(use: dict[str, Any], expected: dict[str, Any]) -> None:
    config = build(settings(**use))["config"]

    assert {field: config.get(field) for field in expected} == expected


def test_max_pods_per_node_is_as_set() -> None:
    assert build(settings(node_max_pods=32))["maxPodsConstraint"] == {"maxPodsPerNode": "32"}


def test_flex_start_without_a_duration_takes_the_longest() -> None:
    body = build(selectors={labels.PROVISIONING: "flex-start"})

    assert body["config"]["maxRunDuration"] == "604800s"


def test_additional_networks_come_from_the_setting_or_the_pod() -> None:
    of_pod = a_pod(annotations={labels.ADDITIONAL_NODE_NETWORKS: "net-c:sub-c"})
    by_setting = build(settings(node_additional_networks=("net-a:sub-a", "net-b:sub-b")))["networkConfig"]
    by_pod = build(settings(allowed_node_networks=("net-c:*",)), pod=of_pod)["networkConfig"]
    a, b, c = ({"network": f"net-{each}", "subnetwork": f"sub-{each}"} for each in "abc")

    assert by_setting["additionalNodeNetworkConfigs"] == [a, b]
    assert by_pod["additionalNodeNetworkConfigs"] == [c]
    assert "networkConfig" not in build()


def test_the_service_account_comes_from_the_setting_or_the_pod() -> None:
    use = settings(node_service_account="nodes@p.iam", allowed_node_service_accounts=("own@p.iam",))
    own = a_pod(annotations={labels.NODE_SERVICE_ACCOUNT: "own@p.iam"})

    assert build(use)["config"]["serviceAccount"] == "nodes@p.iam"
    assert build(use, pod=own)["config"]["serviceAccount"] == "own@p.iam"
    assert "serviceAccount" not in build()["config"]


@pytest.mark.parametrize(
    ("accelerator", "topology", "wanted", "given"),
    [
        ("tpu-v6e-slice", "4x4", "", None),
        ("tpu-v6e-slice", "4x4", "hyperdisk-balanced", "hyperdisk-balanced"),
        ("tpu-v6e-slice", "4x4", "pd-ssd", "hyperdisk-balanced"),
        ("tpu7x", "2x2x2", "pd-balanced", "hyperdisk-balanced"),
        ("tpu-v5-lite-podslice", "4x4", "pd-ssd", "pd-ssd"),
        ("tpu-v5-lite-podslice", "4x4", "hyperdisk-balanced", "pd-balanced"),
        ("tpu-v5p-slice", "2x2x2", "pd-standard", "pd-balanced"),
        ("tpu-v4-podslice", "2x2x2", "hyperdisk-balanced", "hyperdisk-balanced"),
        ("tpu-v3-slice", "4x4", "pd-standard", "pd-standard"),
    ],
)
def test_one_disk_type_for_all_breaks_no_machine(
    accelerator: str, topology: str, wanted: str, given: str | None
) -> None:
    config = build(settings(node_disk_type=wanted), accelerator=accelerator, topology=topology)["config"]

    assert config.get("diskType") == given


def test_labels_are_copied_to_nodes_by_setting_and_by_annotation() -> None:
    pod = a_pod(pod_labels={"team": "vision", "cost": "7"}, annotations={labels.COPY_LABELS: "cost"})
    node_labels = build(settings(copy_labels=("team",)), pod=pod)["config"]["labels"]

    assert (node_labels["team"], node_labels["cost"]) == ("vision", "7")


def test_ici_resiliency_and_location_hint_are_sent_as_labels() -> None:
    wanted = {labels.ICI_RESILIENCY: "false", labels.LOCATION_HINT: "cell-1"}

    assert wanted.items() <= build(selectors=wanted)["config"]["labels"].items()


def test_resource_labels_split_the_bill_and_the_operator_s_win() -> None:
    use = settings(resource_labels={"cost-center": "42", "tpu-provisioner-workload": "all"})
    pod = a_pod(jobset="Train.V2", namespace="ml")
    jobset = a_jobset(name="Train.V2", namespace="ml")

    assert build(pod=pod, jobset=jobset)["config"]["resourceLabels"] == {
        "tpu-provisioner-namespace": "ml",
        "tpu-provisioner-workload": "train-v2",
    }
    assert build(use)["config"]["resourceLabels"] == {
        "tpu-provisioner-namespace": "default",
        "tpu-provisioner-workload": "all",
        "cost-center": "42",
    }


def test_ironwood_slices_name_a_workload_policy() -> None:
    use = settings(workload_policy_prefix="policy-")
    body = build(use, accelerator="tpu7x", topology="4x4x4")

    assert body["placementPolicy"] == {"policyName": "policy-4x4x4"}
    assert build(accelerator="tpu7x", topology="2x2x2")["placementPolicy"] == {
        "policyName": "tpu-provisioner-2x2x2"
    }


@pytest.mark.parametrize(
    ("accelerator", "topology", "chips"),
    [
        (family.accelerator, machine.single_host, machine.chips)
        for family in TPUS.values()
        for machine in family.machines
        if machine.single_host and not machine.by_name_only
    ],
)
def test_a_single_host_carries_no_placement(accelerator: str, topology: str, chips: int) -> None:
    body = build(accelerator=accelerator, topology=topology, chips=chips)

    assert "placementPolicy" not in body
    assert body["initialNodeCount"] == 1


def test_the_node_selector_strategy_gives_the_job_s_label_and_taint() -> None:
    jobset = a_jobset(
        annotations={jobset_keys.EXCLUSIVE_TOPOLOGY: labels.NODE_POOL, jobset_keys.NODE_SELECTOR_STRATEGY: "true"}
    )
    config = build(jobset=jobset, selectors={labels.SPOT: "true"}, tolerations=TOLERATED)["config"]

    assert config["labels"][jobset_keys.NAMESPACED_JOB] == "default_train-workers-0"
    assert config["taints"] == [
        {"key": labels.SPOT, "value": "true", "effect": "NO_SCHEDULE"},
        {"key": jobset_keys.NO_SCHEDULE_TAINT, "value": "true", "effect": "NO_SCHEDULE"},
    ]


def test_labels_over_gke_s_budget_are_refused_before_any_call() -> None:
    long = {f"example.com/{'k' * 40}-{n}": "v" * 60 for n in range(6)}

    with refuses(LabelBudgetExceeded, match="at most 1024"):
        build(selectors=long)


@pytest.mark.parametrize("attempt", [0, 7, 1295])
def test_the_attempt_is_in_the_name_and_in_the_labels(attempt: int) -> None:
    body = a_pool_body(a_demand(), tried=Try(attempt=attempt, candidate=1, round=2, useless=1))
    owner = parse_owner(body["config"]["labels"])

    assert body["name"] == build_name(a_claim(), attempt, 1)
    assert owner is not None
    assert (owner.attempt, owner.candidate, owner.round, owner.useless) == (attempt, 1, 2, 1)


def test_a_pool_that_gke_s_autoscaler_fills_begins_empty_with_room_for_its_hosts() -> None:
    body = a_pool_body(a_demand(), empty=True)

    assert body["initialNodeCount"] == 0
    assert body["autoscaling"] == {"enabled": True, "maxNodeCount": 4, "locationPolicy": "ANY"}


def test_every_feature_at_once_is_still_a_node_pool_of_the_official_client() -> None:
    use = settings(**EVERYTHING)
    for family in TPUS.values():
        topology = family.topologies[-1] if family.topologies else "2x2x1" if family.cubes_max else "2x2"
        build(use, accelerator=family.accelerator, topology=topology, selectors={labels.SPOT: "true"})
