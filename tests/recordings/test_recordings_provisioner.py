"""The page about GKE's own provisioner says what its source says: fields, machines, disks."""

from __future__ import annotations

import re
from operator import lt

import pytest

from shared.core.shapes.tpu_catalogue import MACHINES
from tests.node_pool_bodies import read_names, read_tables, read_values
from tests.recordings.conftest import SOURCE
from tests.recordings.recorded_traffic import find_clone, list_files, read_files

pytestmark = pytest.mark.recordings
WHO, PLACED = "GKE's provisioner", "GKE's placement"
FOLDER = "pkg/cloudprovider/gke"
CLIENT = f"{FOLDER}/gkeclient/autoscaling_gke_client_v1beta1.go"
CLASSES = "pkg/autoprovisioning/selfservice"
"""What a ComputeClass adds."""
TYPES = f"{FOLDER}/machinetypes/deprecated_machine_types_config.go"
TPUS = f"{FOLDER}/machinetypes/deprecated_tpu_config.go"
PARTS = {
    "gke_api_beta.NodeConfig": "config.",
    "gke_api_beta.NodePoolAutoscaling": "autoscaling.",
    "gke_api_beta.PlacementPolicy": "placementPolicy.",
    "gke_api_beta.NodeNetworkConfig": "networkConfig.",
    "container.NodeManagement": "management.",
    "gke_api_beta.NodePool": "",
}
WHOLE = {"config", "autoscaling", "placementPolicy", "networkConfig", "management", "maintenancePolicy"}
"""Fields whose own fields are rows."""
CLIENT_ONLY = {"networkConfig.forceSendFields"}
"""What Go's client reads itself, and does not send."""


def read_source() -> dict[str, str]:
    clone = find_clone(SOURCE)
    assert clone is not None
    classes = [each for each in list_files(clone, [CLASSES], ".go") if not each.endswith("_test.go")]
    return dict(read_files(clone, [CLIENT, TYPES, TPUS, *classes]))


def list_sent(source: dict[str, str]) -> set[str]:
    """The fields that a request for a new pool may set, by their names in the API."""
    body = source[CLIENT].partition(") createNodePoolRequest(")[2]
    body += "".join(text for name, text in source.items() if name.startswith(CLASSES))
    dotted = r"(?:(?:[pP]ool|np)\.)?((?:config|placementPolicy|Config|NetworkConfig|MaintenancePolicy)\.\w+)"
    sent = set(re.findall(rf"^\s+(?:[cr]\w+\.Node)?{dotted}(?:\.\w+)* = ", body, re.MULTILINE))
    sent |= set(re.findall(r"^\s+pool\.(\w+) = ", body, re.MULTILINE))
    for kind, path in PARTS.items():
        literal = rf"^(\t+)[^\n]*{re.escape(kind)}\{{\n(.*?)^\1\}}"
        for indent, fields in re.findall(literal, body, re.MULTILINE | re.DOTALL):
            sent |= {f"{path}{name}" for name in re.findall(rf"^{indent}\t(\w+):", fields, re.MULTILINE)}
    return {re.sub(r"(^|\.)([A-Z])", lambda found: found[0].lower(), each) for each in sent} - WHOLE - CLIENT_ONLY


def list_families(types: str, tpus: str) -> dict[str, tuple[str, str, str, str, bool]]:
    """Machines, topologies of one host, default disk, flex-start and policy, by family."""
    alone = dict(re.findall(r'"([\w-]+)":\s+"([\dx]+)"', tpus.partition("singleHostTopologyMap")[2]))
    found = {}
    for block in re.findall(
        r"RegisterMachineFamily\(MachineFamily\{(.*?)^\t\}\)", types, re.MULTILINE | re.DOTALL
    ):
        if "supportedTpuTypes" in block:
            names = sorted(re.findall(r'NewMachineTypeInfo\("([\w-]+)"', block))
            (disk,) = re.findall(r"defaultDiskType:\s+DiskType(\w+)", block)
            disk = {"Standard": "pd-standard", "Balanced": "pd-balanced"}.get(disk, "hyperdisk-balanced")
            (family,) = re.findall(r'name:\s+"(\w+)"', block)
            hosts = ", ".join(alone.get(name, "none") for name in names)
            flex_start = "no" if "dwsDisabled" in block else "yes"
            found[family] = (", ".join(names), hosts, disk, flex_start, "supportsAcceleratorSlice" in block)
    return found


def test_the_source_sets_the_fields_of_the_page() -> None:
    _, tiers, fields = read_tables()
    told = {name for row in tiers for name in read_values(f"{row['both send']}; {row[f'only {WHO}']}")}
    rows = {name for row in fields if row[f"{WHO} sends"] for name in read_names(row["field"])}
    sent = list_sent(read_source())

    assert len(sent) > 40
    assert {name for name in sent if not any(each.startswith(name) for each in rows | told)} == set()
    assert {name for name in rows if not any(name.startswith(each) for each in sent)} == set()


def test_the_source_has_the_families_of_the_page() -> None:
    source = read_source()
    families = {
        row["family"]: (
            row["machines"],
            row["alone"],
            row["boot disk"],
            row["flex-start"],
            "policy" in row[PLACED],
        )
        for row in read_tables()[0]
    }

    assert list_families(source[TYPES], source[TPUS]) == families


def test_the_source_names_no_larger_machine_than_the_catalogue() -> None:
    found = re.findall(r'NewMachineTypeInfo\("([\w-]+)", (\d+), (\d+)\)', read_source()[TYPES])
    ours = {name: (MACHINES[name].cpus, MACHINES[name].memory_gb) for name, *_ in found if name in MACHINES}

    assert len(ours) > 10
    assert {name: size for name, *size in found if name in ours and any(map(lt, ours[name], map(int, size)))} == {}
