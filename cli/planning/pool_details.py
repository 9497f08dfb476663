"""What a planned pool has and needs, by the request that would be sent, and where machines are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.prices import MARKET
from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.errors import Rejected
from shared.shapes.catalogue import TPUS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.model.workloads import WorkloadView
    from shared.needs.nodepool import Demand

_FIRST = "0"
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}


def describe_disk(pool: Mapping[str, Any]) -> str:
    """Return size and type of the boot disk; GKE chooses what is not set."""
    config = pool["config"]
    size = f"{config['diskSizeGb']} GB" if "diskSizeGb" in config else "100 GB (GKE's default)"
    return f"{size} {config.get('diskType', 'of the default type')}"


def list_taints(pool: Mapping[str, Any]) -> list[str]:
    """Return the taints of the nodes, with the one that GKE adds to accelerators."""
    config = pool["config"]
    resource = labels.GPU_RESOURCE if config.get("accelerators") else labels.TPU_RESOURCE
    own = [f"{each['key']}={each['value']}:{_EFFECTS[each['effect']]}" for each in config.get("taints", [])]
    return [f"{resource}=present:NoSchedule", *own]


def list_labels(pool: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of the nodes without those that name the owner of the pool."""
    return {key: value for key, value in pool["config"]["labels"].items() if not labels.is_owner_key(key)}


def list_pool_needs(demand: Demand) -> list[str]:
    """Return what a demand's pool takes from its surroundings."""
    found = []
    if demand.way.reservation.path:
        found.append(f"the reservation {demand.way.reservation.path}")
    if demand.networks:
        found.append(f"the networks {', '.join(demand.networks)}")
    if demand.node_service_account:
        found.append(f"the service account {demand.node_service_account} for the nodes")
    return found


def list_mixed(workload: WorkloadView) -> list[str]:
    """Return how to keep slices apart where only a webhook can, from the functions' refusal."""
    kind, ways = get_kind(workload.kind), list[str]()
    for group in workload.groups:
        try:
            kind.check_apart(group.template, workload, group, _FIRST)
        except Rejected as error:
            ways.append(
                f"a way to keep its slices apart, else its pods are refused [{error.reason}]: {error.valid}"
            )
    return ways


LISTED_ON = MARKET["zones"]["listed_on"]
ZONES: dict[str, str] = MARKET["zones"]["of"]
"""The zones of each region, by generation of TPUs and type of GPUs."""


def tell_unlisted(accelerator: str, zone: str) -> str:
    """Return a warning if `ZONES` has an accelerator, but not in a zone; else an empty text."""
    kind = TPUS[accelerator].generation if accelerator in TPUS else accelerator
    regions = dict(each.split(":") for each in ZONES.get(kind, "").split())
    region, _, letter = zone.rpartition("-")
    listed = regions.get(region, "").split(",")
    if not regions or letter in listed:
        return ""
    near = ", ".join(f"{region}-{each}" for each in listed) if region in regions else "other regions only"
    return f"on {LISTED_ON} no {kind} was listed in {zone}, but in {near}"
