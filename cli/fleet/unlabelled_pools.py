"""Finds node pools of ours whose owner labels a person removed, and the command that heals each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.decide.limits import count_pool_chips

from cli.fleet.status_rows import Trouble
from shared.model import labels
from shared.model.decisions import Reason
from shared.model.names import SliceClaim, parse_owner, parse_pool_name
from shared.model.pools import PoolStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shared.model.names import ParsedName
    from shared.model.pools import PoolSnapshot


def find_unlabelled(cluster: str, pools: Iterable[PoolSnapshot], *, namespace: str = "") -> Iterator[Trouble]:
    """Yield each pool that is ours by its name, and whose labels do not say whose it is.

    The functions neither use nor delete such a pool.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pools: every pool of it.
        namespace: only what the labels that are left give to this namespace; empty: all.
    """
    for pool in pools:
        name = parse_pool_name(pool.name)
        elsewhere = namespace and pool.labels.get(labels.PARENT_NAMESPACE) != namespace
        if name and not elsewhere and pool.status != PoolStatus.STOPPING and _has_lost_labels(pool, name):
            yield Trouble(f"node pool {pool.name}", str(Reason.FOREIGN_LABELS), _tell(cluster, pool, name))


def _has_lost_labels(pool: PoolSnapshot, name: ParsedName) -> bool:
    if pool.owner is not None:
        return not (pool.owner.owner_uid and pool.owner.claim_hash.startswith(name.hash))
    if pool.deployment or any(labels.is_owner_key(key) for key in pool.labels):
        return True
    # A pool of others can have such a name, for example gpu-accelerator-1.
    return count_pool_chips(pool) > 0 and not name.hash.isalpha()


def _tell(cluster: str, pool: PoolSnapshot, name: ParsedName) -> str:
    _, project, _, location, _, short = cluster.split("/")
    place = f"{pool.name} --cluster={short} --location={location} --project={project}"
    whole = restore_labels(cluster, pool, name)
    if whole is None:
        lost = labels.OWNER_KEYS - pool.labels.keys()
        cure = f"when nothing runs on it, delete it: gcloud container node-pools delete {place}"
    else:
        lost = frozenset(key for key, value in whole.items() if pool.labels.get(key) != value)
        pairs = ",".join(f"{key}={value}" for key, value in sorted(whole.items()))
        cure = f"put them back: gcloud container node-pools update {place} --node-labels={pairs}"
    what = f"labels are missing or changed ({', '.join(sorted(lost))})" if lost else "labels contradict its name"
    return f"has a name of this provisioner, but {what}, so it is neither used nor deleted; {cure}"


def restore_labels(cluster: str, pool: PoolSnapshot, name: ParsedName) -> dict[str, str] | None:
    """Return all node labels of a pool with those that its name and its other labels prove.

    None if what is left does not prove the claim that the name has a part of. GKE replaces all
    labels of a pool at once, without new nodes
    (https://cloud.google.com/kubernetes-engine/docs/how-to/update-existing-nodepools).
    """
    found = pool.labels | {labels.MANAGER: labels.MANAGER_VALUE, labels.ATTEMPT: str(name.attempt)}
    owner = parse_owner(found)
    if owner is None:
        return None
    kind, namespace, workload = owner.home
    claim = SliceClaim(
        cluster=cluster,
        kind=kind,
        namespace=namespace,
        name=workload,
        owner_uid=owner.owner_uid,
        slice_key=f"{namespace}/{owner.slice_name}",
    )
    return found | {labels.CLAIM: claim.hash} if claim.hash.startswith(name.hash) else None
