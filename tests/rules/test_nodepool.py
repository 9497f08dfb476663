"""The pool that is asked for: a row per feature, and each body in the official client's terms."""

from typing import Any

import pytest
from google.cloud.container_v1.types import NodePool
from google.protobuf import json_format
from msgspec import structs

from shared.model import labels
from shared.model.names import Owner, Try, build_name, parse_owner
from shared.model.needs import Tier
from shared.model.workloads import Toleration
from shared.settings import Settings
from shared.shapes.catalogue import TPUS, Family
from tests.builders import JOBSET_UID, ZONE, a_claim, a_jobset, a_pod, settings
from tests.demands import a_demand, a_pool_body
from tests.rows import read_rows

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


def find_part(body: dict[str, Any], path: str) -> Any:
    """Return what stands at a path of a body; None for nothing."""
    *parts, last = path.split()
    for part in parts:
        body = body[part]
    return body.get(last)


@read_rows("nodepools.yaml", "sets asks pod jobset gives")
def test_a_pool_is_as_its_pods_and_the_settings_say(
    sets: dict[str, Any], asks: dict[str, Any], pod: dict[str, Any], jobset: dict[str, Any], gives: dict[str, Any]
) -> None:
    use = {key: tuple(value) if isinstance(value, list) else value for key, value in sets.items()}
    shape = asks | ({"tolerations": TOLERATED} if asks.get("tolerates_spot") else {})
    own = a_pod(**pod, shape={key: value for key, value in shape.items() if key != "tolerates_spot"})
    body = build(settings(**use), pod=own, jobset=a_jobset(**jobset, template=own.template))

    assert {path: find_part(body, path) for path in gives} == gives


@pytest.mark.parametrize("family", TPUS.values(), ids=TPUS)
def test_a_single_host_carries_no_placement(family: Family) -> None:
    for machine in family.machines:
        if machine.single_host and not machine.by_name_only:
            asked: dict[str, Any] = {"topology": machine.single_host, "chips": machine.chips}
            body = build(accelerator=family.accelerator, **asked)
            assert ("placementPolicy" in body, body["initialNodeCount"]) == (False, 1)


@pytest.mark.parametrize("attempt", [0, 7, 1295])
def test_the_attempt_is_in_the_name_and_in_the_labels(attempt: int) -> None:
    body = a_pool_body(a_demand(), tried=Try(attempt=attempt, candidate=1, round=2, useless=1))
    owner = parse_owner(body["config"]["labels"])

    assert body["name"] == build_name(a_claim(), attempt, 1)
    assert owner is not None
    assert (owner.attempt, owner.candidate, owner.round, owner.useless) == (attempt, 1, 2, 1)


def test_no_label_of_a_pod_overwrites_one_that_says_whose_the_pool_is() -> None:
    demand = structs.replace(a_demand(), node_labels={labels.OWNER_UID: "another", "team": "a"})

    node_labels = a_pool_body(demand)["config"]["labels"]

    assert (node_labels[labels.OWNER_UID], node_labels["team"]) == (a_claim().uid, "a")


def test_what_begins_empty_has_room_for_its_hosts_and_upgrades_are_off_where_no_channel_forbids_it() -> None:
    body = a_pool_body(a_demand(), empty=True, on_channel=False)

    assert body["initialNodeCount"] == 0
    assert body["autoscaling"] == {"enabled": True, "maxNodeCount": 4, "locationPolicy": "ANY"}
    assert body["management"] == {"autoRepair": True, "autoUpgrade": False}
    assert "maintenancePolicy" not in body


def test_every_feature_at_once_is_still_a_node_pool_of_the_official_client() -> None:
    use = settings(**EVERYTHING)
    for family in TPUS.values():
        topology = family.topologies[-1] if family.topologies else "2x2x1" if family.cubes_max else "2x2"
        build(use, accelerator=family.accelerator, topology=topology, selectors={labels.SPOT: "true"})


LIST = """
- reservations: {specific: [{name: train}]}
  location: {zones: [us-east5-a]}
- {}
- spot: true
- flexStart: {enabled: true}
  maxRunDurationSeconds: 86400
"""


def test_a_pool_is_made_of_its_candidate_and_names_it() -> None:
    demand = a_demand(tolerations=TOLERATED, annotations={labels.CAPACITY: LIST})
    first, third, last = (
        a_pool_body(demand, candidate=number, tried=Try(candidate=number)) for number in (0, 2, 3)
    )

    assert first["config"]["reservationAffinity"]["values"] == ["train"]
    assert [each["locations"] for each in (first, third, last)] == [["us-east5-a"], [ZONE], [ZONE]]
    assert (third["config"]["spot"], last["config"]["maxRunDuration"]) == (True, "86400s")
    marks = [each["config"]["labels"].get(labels.CANDIDATE) for each in (first, third, last)]
    assert marks == [None, "2", "3"]
