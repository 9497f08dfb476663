"""A node proves the cluster if its name cannot be that of a node of another cluster."""

import pytest
from shared.core.decide.cluster_stops import judge_nodes, list_witnesses

from shared.model.pools import PoolSnapshot
from tests.builders import a_foreign_pool, a_go_pool, a_pool

GROUP = "gke-main-default-pool-12ab34cd"
URLS = (f"https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroupManagers/{GROUP}-grp",)
DEFAULT = a_foreign_pool(node_count=1, machine_type="e2-standard-4", group_urls=URLS)
TPUS = a_foreign_pool("static", node_count=4, machine_type="ct6e-standard-4t", group_urls=URLS)
OURS = a_pool()


@pytest.mark.parametrize(
    ("pools", "nodes", "proven"),
    [
        ([DEFAULT], {f"{GROUP}-x1y2": "default-pool"}, True),
        ([DEFAULT], {"gke-main-default-pool-99ff99ff-x1y2": "default-pool"}, False),
        ([DEFAULT], {}, False),
        ([DEFAULT, OURS], {"any": OURS.name}, True),
        ([OURS], {"any": OURS.name}, True),
        ([OURS], {}, None),  # all of its nodes may be preempted
        ([OURS], {"any": "default-pool"}, None),
        ([a_foreign_pool(group_urls=URLS)], {}, None),  # it has no nodes by GKE's list
        ([a_foreign_pool(node_count=1)], {}, None),  # GKE tells no instance group
        ([a_foreign_pool(node_count=1, group_urls=URLS, status="ERROR")], {}, None),
        ([a_foreign_pool(node_count=1, group_urls=URLS, status="RECONCILING")], {}, False),
        ([TPUS], {"gke-tpu-12ab34cd-x1y2": "static"}, None),  # not named after the group
        ([a_go_pool()], {"any": "train-12345"}, None),  # its name may be that of a pool of another cluster
        ([], {}, None),
    ],
)
def test_nodes_tell_the_cluster(pools: list[PoolSnapshot], nodes: dict[str, str], *, proven: bool | None) -> None:
    assert judge_nodes(list_witnesses(pools), nodes) is proven
