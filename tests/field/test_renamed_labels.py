"""Old names of zone, region and machine type are read as the new ones: GKE's nodes have both."""

from tests.field.planned import plan_needs

WANTED = {
    "zone": (1, "ct6e-standard-1t", "us-east5-b"),
    "machine": (1, "ct6e-standard-8t", "us-east5-any"),
    "affinity": (1, "g2-standard-4", "us-east5-a"),
    "both-names": (1, "ct6e-standard-1t", "us-east5-b"),
}


def test_old_names_choose_zone_and_machine() -> None:
    needs = plan_needs("renamed-labels.yaml")
    got = {name: (needs[name]["pools"], needs[name]["machine_type"], needs[name]["zone"]) for name in WANTED}

    assert got == WANTED


def test_two_values_under_two_names_fit_no_node() -> None:
    need = plan_needs("renamed-labels.yaml")["two-zones"]

    assert (need["decision"], need["reason"]) == ("refuse", "selector_unsupported")
    assert "another value than the pod selects for topology.kubernetes.io/zone" in need["message"]
