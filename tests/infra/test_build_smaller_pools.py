"""A plan that gives a node pool fewer or smaller nodes is not applied unasked: pods need them."""

from typing import Any

from infra.build.check_plan import refuse_losses
from tests.infra.pretended_deployment import a_change, a_plan


def update(after: dict[str, Any]) -> dict[str, Any]:
    node = {"machine_type": "e2-standard-4", "disk_size_gb": 200}
    before = {"name": "cpu-node-pool", "node_count": 3, "node_config": [node], "node_locations": ["a", "b"]}
    address = "module.environment.google_container_node_pool.cpu"
    return a_plan(a_change(address, "update", before=before, after=before | after))


def test_a_pool_that_gets_less_is_not_updated_unasked() -> None:
    smaller = update({"node_config": [{"machine_type": "e2-standard-2", "disk_size_gb": 30}]})
    refused = refuse_losses(smaller, "")
    assert (
        "  pool/cpu-node-pool gets fewer or smaller nodes (machine_type e2-standard-4 to e2-standard-2, "
        "disk_size_gb 200 to 30); to keep them, give the pool's present values in TERRAFORM_VARIABLES\n"
    ) in refused
    assert refuse_losses(smaller, "pool/cpu-node-pool") == ""
    assert "node_count 3 to 2" in refuse_losses(update({"node_count": 2}), "")
    assert "(none in a, none in b)" in refuse_losses(update({"node_locations": ["c"]}), "")
    assert refuse_losses(update({"node_locations": ["a", "b", "c"]}), "") == ""
    for more in ({"node_count": 4}, {"node_config": [{"machine_type": "n2-standard-8", "disk_size_gb": 300}]}, {}):
        assert refuse_losses(update(more), "") == ""
