"""What one slice of a JobSet gets, or is told, by what its pods ask and the settings say."""

from operator import attrgetter
from typing import Any

from msgspec import structs

from shared.capacity_texts import CapacityPolicy, read_ways
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.workloads import Disk, PodTemplate, Requirement, TermKind, Toleration, TopologyTerm
from shared.needs.nodepool import Demand
from shared.settings import ClusterSettings, Settings
from shared.shapes.catalogue import GIB
from tests.builders import CLUSTER, IN_ONE_POOL, NOW, a_jobset, a_pod, a_template, settings
from tests.demands import a_pool_body, decide_demand, expect_demand
from tests.refusals import expect_words
from tests.rows import read_table, rows

COLUMNS = (
    "about sets zone selects affinity terms together_by exclusive tolerates annotates asks storage_gib list "
    "disks pods pod jobset ways labels gives disk_gb refused left"
)
RESULTS = {"ways", "labels", "gives", "disk_gb", "refused", "left"}
CLAIMS = ("data", "more", "most")


def name(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table whose keys in capitals are those labels."""
    return {getattr(labels, key) if key.isupper() else key: value for key, value in table.items()}


def read_settings(row: dict[str, Any]) -> Settings:
    sets = {key: tuple(value) if isinstance(value, list) else value for key, value in row.get("sets", {}).items()}
    if policies := sets.pop("capacity_policies", ()):
        texts = [each | {"ways": read_ways(each["priorities"])} for each in policies]
        fields = [{key: tuple(each[key]) for key in each if key != "priorities"} for each in texts]
        sets["capacity_policies"] = tuple(CapacityPolicy(**each) for each in fields)
    if "zone" in row:
        sets["clusters"] = {CLUSTER: ClusterSettings(endpoint="http://127.0.0.1:9", zone=row["zone"])}
    return settings(**sets)


def read_template(row: dict[str, Any]) -> PodTemplate:
    of_list = {labels.CAPACITY: row["list"]} if "list" in row else {}
    asks = row.get("asks", {})
    if "list" in row or "tolerates" in row:
        keys = name(dict.fromkeys(row.get("tolerates", ["SPOT"])))
        asks = {"tolerations": tuple(Toleration(key=key, operator="Exists") for key in keys)} | asks
    terms = [Requirement(getattr(labels, key), operator) for key, operator in row.get("terms", ())]
    together = [TopologyTerm(kind=TermKind.AFFINITY, key=row["together_by"])] if "together_by" in row else []
    apart = IN_ONE_POOL if "exclusive" in row else ()
    return a_template(
        selectors=name(row.get("selects", {})),
        node_affinity={key: tuple(values) for key, values in name(row.get("affinity", {})).items()},
        annotations=name(row.get("annotates", {})) | of_list,
        node_terms=(tuple(terms),) if terms else (),
        topology_terms=(*together, *apart),
        storage_bytes=row.get("storage_gib", 0) * GIB,
        volume_claims=("scratch", *CLAIMS[: len(row.get("disks", ()))]),
        **asks,
    )


def decide(row: dict[str, Any], use: Settings) -> Demand | Decision:
    """Decide about the slice of a row. Beside its disks there is one of other pods."""
    pod = a_pod(template=read_template(row), **row.get("pod", {}))
    zones = dict(zip(CLAIMS, row.get("disks", ()), strict=False)) | {"of-others": ["europe-west4-a"]}
    disks = tuple(Disk(claim=claim, zones=tuple(each)) for claim, each in zones.items())
    jobset = a_jobset(template=pod.template, disks=disks, created_at=NOW, **row.get("jobset", {}))
    groups = tuple(structs.replace(each, pods=row.get("pods", each.pods)) for each in jobset.groups)
    return decide_demand(CLUSTER, pod, structs.replace(jobset, groups=groups), use)


@rows("row", read_table("slices.yaml", COLUMNS, section="about"))
def test_a_slice_gets_what_its_pods_ask_or_is_told_why_not(row: dict[str, Any]) -> None:
    use = read_settings(row)
    found = decide(row, use)

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
    if "disk_gb" in row:
        assert a_pool_body(demand, use=use)["config"].get("diskSizeGb") == row["disk_gb"]
