"""A workload for GKE's queued provisioning is left to GKE: there is nothing to correct."""

from tests.cli.cli_world import run
from tests.field.planned import INPUTS, plan_needs

NAME = "queued-provisioning.yaml"


def test_every_way_to_ask_for_it_is_left_to_gke() -> None:
    needs = plan_needs(NAME)

    assert needs.pop("pool-by-name")["reason"] == "demand_bound_elsewhere"
    assert len(needs) == 4
    assert {need["reason"] for need in needs.values()} == {"demand_left_to_gke"}
    assert {name for name, need in needs.items() if "queued provisioning" in need["message"]} == {
        "tpu-by-selector",
        "gpu-by-selector",
        "gpu-by-affinity",
    }


def test_a_gate_stays_green_and_no_note_promises_pools() -> None:
    result = run("plan", str(INPUTS / NAME))

    assert result.exit_code == 0
    assert "left to GKE: queued provisioning by Kueue" in result.stdout
    assert "pools are created" not in result.stdout
