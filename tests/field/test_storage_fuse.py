"""The sidecar that GKE adds for Cloud Storage FUSE counts before it exists."""

from tests.field.planned import plan_needs


def test_the_boot_disk_has_room_for_the_sidecar() -> None:
    needs = plan_needs("storage-fuse.yaml")

    sizes = {name: need["node_pool"]["config"].get("diskSizeGb") for name, need in needs.items() if need["pools"]}
    assert sizes["injected"] == sizes["written"] == sizes["unlimited"] == 110
    assert sizes["without"] is None
    assert sizes["limited"] > 110


def test_what_no_longer_fits_a_host_is_refused() -> None:
    need = plan_needs("storage-fuse.yaml")["memory"]

    assert (need["decision"], need["reason"]) == ("refuse", "shape_unsupported")
