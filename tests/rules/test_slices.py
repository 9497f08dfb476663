"""What a slice of a JobSet gets: a node pool or a reason, by what its pods ask and the settings."""

import json
from operator import attrgetter
from typing import Any

import yaml
from google.cloud.container_v1.types import NodePool
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from shared.capacity_texts import read_policies
from shared.kinds import jobset as jobset_keys
from shared.kinds.kind import share_nodes
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.names import Owner, Try, build_name, build_owner_labels, parse_owner
from shared.model.needs import Tier
from shared.model.workloads import Disk, PodTemplate, Requirement, TermKind, Toleration, TopologyTerm
from shared.needs.ways import Demand
from shared.plan.counting import fits
from shared.settings import ClusterSettings, Settings
from shared.shapes.catalogue import GIB
from tests.builders import JOBSET_UID, NOW, ZONE, a_claim, a_jobset, a_pod, a_template, read_created, settings
from tests.demands import a_demand, a_pool_body, decide, expect_demand, expect_words
from tests.rows import read_table, rows

COLUMNS = (
    "about sets location zone selects affinity terms topology tolerates annotates asks storage_gib list "
    "disks pods pod group jobset live ways labels gives pool refused left"
)
RESULTS = {"ways", "labels", "gives", "pool", "refused", "left"}
KINDS = {"together": TermKind.AFFINITY, "apart": TermKind.ANTI_AFFINITY, "spread": TermKind.SPREAD}
CLAIMS = ("data", "more", "most")


def name_label(key: str) -> str:
    return str(getattr(labels, key)) if key.isupper() else key


def name(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table whose keys in capitals are those labels."""
    return {name_label(key): value for key, value in table.items()}


def name_cluster(row: dict[str, Any]) -> str:
    return f"projects/p/locations/{row.get('location', 'us-east5')}/clusters/c"


def read_settings(row: dict[str, Any]) -> Settings:
    sets = {key: tuple(value) if isinstance(value, list) else value for key, value in row.get("sets", {}).items()}
    if policies := sets.pop("capacity_policies", ()):
        lists = [each | {"priorities": yaml.safe_load(each["priorities"])} for each in policies]
        sets["capacity_policies"] = read_policies(json.dumps(lists))
    sets["clusters"] = {name_cluster(row): ClusterSettings(endpoint="http://h", zone=row.get("zone", ZONE))}
    return settings(**sets)


def read_template(row: dict[str, Any]) -> PodTemplate:
    of_list = {labels.CAPACITY: row["list"]} if "list" in row else {}
    asks = row.get("asks", {})
    if "list" in row or "tolerates" in row:
        taints = row.get("tolerates", [{"key": labels.SPOT, "operator": "Exists"}])
        asks = {"tolerations": tuple(Toleration(**each) for each in taints)} | asks
    terms = [
        tuple(Requirement(name_label(key), operator, tuple(values)) for key, operator, *values in term)
        for term in row.get("terms", ())
    ]
    topology = [
        TopologyTerm(kind=KINDS[kind], key=name_label(key))
        for kind, keys in row.get("topology", {}).items()
        for key in keys
    ]
    return a_template(
        selectors=name(row.get("selects", {})),
        node_affinity={key: tuple(values) for key, values in name(row.get("affinity", {})).items()},
        annotations={key: text for key, text in name(row.get("annotates", {})).items() if text} | of_list,
        node_terms=tuple(terms),
        topology_terms=tuple(topology),
        storage_bytes=row.get("storage_gib", 0) * GIB,
        volume_claims=("scratch", *CLAIMS[: len(row.get("disks", ()))]),
        **asks,
    )


def merge(row: dict[str, Any], live: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a row with what is said otherwise in some columns."""
    return row | {column: row.get(column, {}) | values for column, values in live.items()}


def answer(row: dict[str, Any], use: Settings) -> Demand | Decision:
    """Decide about the slice of a row. Beside its disks there is one of other pods."""
    pod = a_pod(template=read_template(merge(row, row.get("live", {}))), **row.get("pod", {}))
    zones = dict(zip(CLAIMS, row.get("disks", ()), strict=False)) | {"of-others": ["europe-west4-a"]}
    disks = tuple(Disk(claim=claim, zones=tuple(each)) for claim, each in zones.items())
    own = dict(row.get("jobset", {}))
    own["marks"] = name(own.get("marks", {}))
    template = read_template(row) if "live" in row else pod.template
    jobset = a_jobset(template=template, disks=disks, created_at=NOW, **own)
    (group,) = jobset.groups
    groups = (share_nodes(structs.replace(group, pods=row.get("pods", group.pods), **row.get("group", {}))),)
    return decide(pod, structs.replace(jobset, groups=groups), use, cluster=name_cluster(row))


def build_pool(demand: Demand, use: Settings, **owner: Any) -> dict[str, Any]:
    """Return the body of a pool, which the official client knows with each field and value."""
    empty = demand.way.tier == Tier.FLEX_START or (demand.need.elastic and not demand.need.part)
    body = a_pool_body(demand, use=use, claim=a_claim(**owner), empty=empty)
    json_format.ParseDict(body, NodePool.pb(NodePool()), ignore_unknown_fields=False)
    return body


def find_part(body: dict[str, Any], path: str) -> Any:
    """Return what stands at a path of a body; None for nothing."""
    *parts, last = path.split()
    for part in parts:
        body = body[part]
    return body.get(last)


ROWS = {
    title: row
    for file in ("slices.yaml", "nodepools.yaml", "live_pods.yaml")
    for title, row in read_table(file, COLUMNS, section="about").items()
}


@rows("row", ROWS)
def test_a_slice_gets_what_its_pods_ask_or_is_told_why_not(row: dict[str, Any]) -> None:
    use = read_settings(row)
    found = answer(row, use)

    assert row.keys() & RESULTS, "a row says what comes of it"
    for column, verdict in (("refused", Verdict.REFUSE), ("left", Verdict.NOTHING)):
        if column in row:
            reason, *words = row[column]
            expect_words(found, Reason(reason), *words, verdict=verdict)
            return
    demand = expect_demand(found)
    assert row.get("ways") in (None, [str(way) for way in demand.need.ways])
    assert demand.node_labels == name(row.get("labels", demand.node_labels))
    for path, value in row.get("gives", {}).items():
        assert attrgetter(path)(demand) == (tuple(value) if isinstance(value, list) else value), path
    owner = {key: value for key, value in row.get("jobset", {}).items() if key in ("name", "namespace")}
    (slot,) = demand.need.list_slots(1)
    body = build_pool(demand, use, slot=slot, **owner)
    assert {path: find_part(body, path) for path in row.get("pool", {})} == row.get("pool", {})
    listed: Any = read_created(body)
    assert fits(listed, demand.need.asks), "what is made for a need counts for it"


def test_the_plain_pool_is_exactly_this() -> None:
    tried = Try(attempt=7, candidate=1, round=2, useless=1)
    body = a_pool_body(a_demand(), tried=tried, created_at=int(NOW))
    node_labels = body["config"].pop("labels")

    assert parse_owner(node_labels) == Owner(
        kind="JobSet",
        namespace="default",
        name="train",
        uid=JOBSET_UID,
        need=a_claim().need,
        slot=0,
        created_at=int(NOW),
        **structs.asdict(tried),
    )
    assert all(key.startswith(labels.OWNER_KEYS) for key in node_labels)
    assert body == {
        "name": build_name(a_claim(), 7, 1),
        "config": {
            "machineType": "ct6e-standard-4t",
            "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
            "shieldedInstanceConfig": {"enableIntegrityMonitoring": True, "enableSecureBoot": True},
            "workloadMetadataConfig": {"mode": "GKE_METADATA"},
            "resourceLabels": {"tpu-provisioner-namespace": "default", "tpu-provisioner-workload": "train"},
        },
        "initialNodeCount": 4,
        "locations": [ZONE],
        "management": {"autoRepair": True, "autoUpgrade": True},
        "maintenancePolicy": {"exclusionUntilEndOfSupport": {"enabled": True}},
        "upgradeSettings": {"maxSurge": 1},
        "maxPodsConstraint": {"maxPodsPerNode": "15"},
        "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
    }


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


LIST = """
- reservations: {specific: [{name: train}]}
  location: {zones: [us-east5-a]}
- {}
- spot: true
- flexStart: {enabled: true}
  maxRunDurationSeconds: 86400
"""


def test_a_pool_is_made_of_its_candidate_and_names_it() -> None:
    tolerates = (Toleration(key=labels.SPOT, operator="Exists"),)
    demand = a_demand(tolerations=tolerates, annotations={labels.CAPACITY: LIST})
    first, third, last = (
        a_pool_body(demand, candidate=number, tried=Try(candidate=number)) for number in (0, 2, 3)
    )

    assert first["config"]["reservationAffinity"]["values"] == ["train"]
    assert [each["locations"] for each in (first, third, last)] == [["us-east5-a"], [ZONE], [ZONE]]
    assert (third["config"]["spot"], last["config"]["maxRunDuration"]) == (True, "86400s")
    marks = [each["config"]["labels"].get(labels.CANDIDATE) for each in (first, third, last)]
    assert marks == [None, "2", "3"]


OF_OWNERS = build_owner_labels(
    a_claim(), Try(attempt=1, candidate=1, round=1, useless=1), created_at=1, cluster_uid="u", warm_seconds=1
).keys()
KEYS = [value for name, value in vars(labels).items() if name.isupper() and isinstance(value, str)]
KEY = st.sampled_from(sorted({*OF_OWNERS, *KEYS, jobset_keys.NAMESPACED_JOB, "team"}))
VALUE = st.sampled_from(["true", "false", "spot", "any", "specific", ZONE, "4", "r", "", "2x2"])


@given(
    shape=st.fixed_dictionaries(
        {
            "selectors": st.dictionaries(KEY, VALUE, max_size=4),
            "node_affinity": st.dictionaries(KEY, st.lists(VALUE, max_size=2).map(tuple), max_size=2),
        }
    ),
    pod_labels=st.dictionaries(KEY, VALUE, max_size=4),
    copied=st.lists(KEY, max_size=4),
    setting=st.lists(KEY, max_size=3).map(tuple),
)
def test_whatever_an_author_says_ends_with_words_or_in_a_pool_that_says_whose_it_is(
    shape: dict[str, Any], pod_labels: dict[str, str], copied: list[str], setting: tuple[str, ...]
) -> None:
    use = settings(copy_labels=setting)
    pod = a_pod(shape=shape, pod_labels=pod_labels, annotations={labels.COPY_LABELS: ",".join(copied)})
    found = decide(pod, a_jobset(template=pod.template), use)
    if isinstance(found, Decision):
        assert found.message
        return
    body, plain = build_pool(found, use), a_pool_body(a_demand())["config"]["labels"]

    assert body["locations"] == [found.way.zone]
    assert {key for key in OF_OWNERS if body["config"]["labels"].get(key) != plain.get(key)} == set()
