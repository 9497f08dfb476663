"""Compares what an environment takes of its region's quotas with what is left of them.

The names of quotas are those of `gcloud compute regions describe`
(https://cloud.google.com/compute/docs/reference/rest/v1/regions/get). What the state has already is
not counted again, because Google counts it as used.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.build.render_training import CATALOGUE, find_slice
from shared.shapes.catalogue import DISK_GB_DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GLOBAL_CPUS = "CPUS_ALL_REGIONS"
"""The one quota that is not of a region."""
_UNITS = {"SSD_TOTAL_GB": "GB", "DISKS_TOTAL_GB": "GB", "HDB_TOTAL_GB": "GB", "IN_USE_ADDRESSES": "addresses"}
_DISKS = {"pd-standard": "DISKS_TOTAL_GB", "hyperdisk-balanced": "HDB_TOTAL_GB"}
"""The quota of each type of disk that is not SSD_TOTAL_GB's."""
_SHARED_CORE = {"e2-micro", "e2-small", "e2-medium"}
_POOL = "google_container_node_pool"


@dataclass(frozen=True)
class Need:
    """A part of a quota, what takes it, and what to change for less of it."""

    metric: str
    amount: int
    what: str
    change: str


def list_needs(values: Mapping[str, Any], state: Mapping[str, Any]) -> list[Need]:
    """Return what the build takes: the CPU pool, and the static pools, as far as they are new.

    Args:
        values: The variables of the root `complete`, with its defaults.
        state: Of Terraform.
    """
    pools = count_pools(state)
    needs = [] if pools["cpu"] else list(_list_cpu_pool(values))
    for _ in range(int(values["num_tpu_pools"]) - pools["tpu"]):
        if not values["enable_tpu_autoscaling"]:
            needs += list_slice(values, f"a static pool of {values['tpu_type']}", "_NUM_TPU_POOLS")
    if values["enable_private_nodes"] and values["create_nat"] and not pools["cpu"]:
        needs.append(Need("IN_USE_ADDRESSES", 1, "Cloud NAT", "create_nat"))
    return needs


def count_pools(state: Mapping[str, Any]) -> Counter[str]:
    """Return how many node pools Terraform's state has, by the names of its resources."""
    return Counter(
        each["name"]
        for each in state.get("resources", ())
        if each.get("mode") == "managed" and each["type"] == _POOL
        for _ in each.get("instances", ())
    )


def find_machine(tpu_type: str) -> str:
    """Return the machine type of a slice.

    Raises:
        ValueError: there is no such slice.
    """
    chosen = find_slice(tpu_type)
    machines: dict[str, Any] = json.loads(CATALOGUE.read_text(encoding="utf-8"))["machines"]
    return next(name for name, each in machines.items() if chosen.name in each["slices"])


def _list_cpu_pool(values: Mapping[str, Any]) -> Iterable[Need]:
    nodes = int(values["cpu_pool_node_count"]) * max(1, len(values["cpu_pool_zones"]))
    what, machine = f"{nodes} nodes of the CPU pool", values["cpu_pool_machine_type"]
    metric = _DISKS.get(values["cpu_pool_disk_type"], "SSD_TOTAL_GB")
    yield Need(metric, nodes * int(values["cpu_pool_disk_size"]), what, "cpu_pool_disk_size")
    yield from _list_addresses(values, nodes, what)
    if cpus := count_cpus(machine):
        family = machine.partition("-")[0]
        metric = "CPUS" if family in ("e2", "n1") else f"{family.upper()}_CPUS"
        for each in (metric, GLOBAL_CPUS):
            yield Need(each, nodes * cpus, what, "cpu_pool_machine_type")


def _list_addresses(values: Mapping[str, Any], nodes: int, what: str) -> Iterable[Need]:
    if not values["enable_private_nodes"]:
        yield Need("IN_USE_ADDRESSES", nodes, what, "_PRIVATE_NODES=true")


def count_cpus(machine_type: str) -> int:
    """Return the vCPUs of a machine type by its name; 0 if the name does not say them."""
    if machine_type in _SHARED_CORE:
        return 2
    found = re.fullmatch(r"[a-z0-9]+-(?:custom-(\d+)-\d+(?:-ext)?|[a-z]+-(\d+))", machine_type)
    return int(found[1] or found[2]) if found else 0


def list_slice(values: Mapping[str, Any], what: str, change: str) -> list[Need]:
    """Return what one slice of `tpu_type` takes: disks, addresses and chips.

    Raises:
        ValueError: there is no such slice.
    """
    chosen = find_slice(values["tpu_type"])
    machines = json.loads(CATALOGUE.read_text(encoding="utf-8"))["machines"]
    machine = next(each for each in machines.values() if chosen.name in each["slices"])
    nodes = machine["slices"][chosen.name]["nodes"]
    size = int(values["settings"].get("node_disk_size_gb") or DISK_GB_DEFAULT)
    kind = values["settings"].get("node_disk_type") or machine["boot_disk_type"]
    needs = [Need(_DISKS.get(kind, "SSD_TOTAL_GB"), nodes * size, what, change)]
    needs += _list_addresses(values, nodes, what)
    # Google lists the quotas of newer generations by family, on another page only.
    chips, capacity = machine["quota"], values["tpu_capacity"]
    if chips and capacity != "reservation":
        metric = f"PREEMPTIBLE_{chips}" if capacity == "spot" else chips
        needs.append(Need(metric, chosen.chips, what, change))
    return needs


def find_shortages(needs: Iterable[Need], quotas: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a text for each quota that does not have enough left, with what takes it.

    Args:
        needs: What is to be made.
        quotas: By name: `limit` and `usage`. One that is missing here is not compared.
    """
    found, needs = [], list(needs)
    for metric in dict.fromkeys(each.metric for each in needs if each.metric in quotas):
        asked = [each for each in needs if each.metric == metric]
        wanted, limit = sum(each.amount for each in asked), quotas[metric]["limit"]
        left = limit - quotas[metric].get("usage", 0)
        if wanted > left:
            takers = " and ".join(dict.fromkeys(each.what for each in asked))
            changes = ", ".join(dict.fromkeys(each.change for each in asked))
            unit = _UNITS.get(metric, "chips" if "TPU" in metric else "CPUs")
            found.append(
                f"quota {metric}: {left:g} of {limit:g} {unit} are left, and {wanted} are needed for {takers}; "
                f"change {changes}, or ask for more"
            )
    return found
