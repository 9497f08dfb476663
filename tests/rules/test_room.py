"""What a node leaves to pods, and the boot disk that their ephemeral storage needs."""

from typing import Any

import pytest

from shared.model.decisions import Reason
from shared.needs.nodepool import Demand
from shared.settings import Settings
from shared.shapes.catalogue import (
    DISK_GB_MAX,
    GIB,
    TPUS,
    Room,
    find_disk_size,
    measure_allocatable,
    measure_storage,
)
from tests.builders import settings
from tests.demands import a_pool_body, expect_demand
from tests.rules.asked_shapes import decide_shape, refuse_shape

_HOST = next(each for each in TPUS["tpu-v6e-slice"].machines if (each.cpus, each.memory_gb) == (180, 720))


def disk_of(use: Settings | None = None, **template: Any) -> int | None:
    demand = expect_demand(decide_shape(use, **template))
    body = a_pool_body(demand, use=use or settings())
    size: int | None = body["config"].get("diskSizeGb")
    return size


@pytest.mark.parametrize(("disk_gb", "allocatable"), [(100, 47_060_071_478), (200, 104_638_878_617)])
def test_a_boot_disk_leaves_what_nodes_of_gke_report(disk_gb: int, allocatable: int) -> None:
    assert measure_storage(disk_gb) == pytest.approx(allocatable, rel=0.001)


@pytest.mark.parametrize(("gib", "disk_gb"), [(0, 100), (43, 100), (45, 110), (80, 170), (120, 250), (600, 800)])
def test_the_disk_is_the_smallest_that_has_the_storage(gib: int, disk_gb: int) -> None:
    assert find_disk_size(gib * GIB, 100) == disk_gb
    assert measure_storage(disk_gb) >= gib * GIB
    assert disk_gb == 100 or measure_storage(disk_gb - 10) < gib * GIB


def test_no_disk_has_room_for_everything() -> None:
    assert find_disk_size(10**30, 100) > DISK_GB_MAX


def test_daemonsets_take_their_share_of_cpu_and_memory() -> None:
    whole = measure_allocatable(_HOST, Room())
    shared = measure_allocatable(_HOST, Room(cpu_millis=300, memory_bytes=500))
    assert (whole[0] - shared[0], whole[1] - shared[1]) == (300, 500)
    assert 179_000 < shared[0] < 180_000


def test_a_pod_that_no_host_has_room_for_is_refused_with_what_there_is() -> None:
    found = refuse_shape(cpu_millis=1_000_000)
    assert found.reason == Reason.SHAPE_UNSUPPORTED
    assert "got 'cpu 1000, memory 0Gi'" in found.message
    assert "at most cpu 179.18, memory 698.2Gi" in found.message
    assert "180 vCPUs and 720 GiB" in found.message


def test_memory_counts_like_cpu_and_the_daemonsets_share_is_the_operators() -> None:
    _, memory = measure_allocatable(_HOST, Room())
    assert isinstance(decide_shape(settings(node_daemonsets_memory_mib=0), memory_bytes=memory), Demand)
    assert refuse_shape(memory_bytes=memory).reason == Reason.SHAPE_UNSUPPORTED


def test_the_disk_follows_the_pods_within_the_operators_bound() -> None:
    assert disk_of() is None
    assert disk_of(storage_bytes=40 * GIB) is None
    assert disk_of(storage_bytes=80 * GIB) == 170
    assert disk_of(settings(node_disk_size_gb=200), storage_bytes=80 * GIB) == 200
    found = refuse_shape(settings(node_disk_size_gb_max=150), storage_bytes=80 * GIB)
    assert found.reason == Reason.REQUEST_NOT_ALLOWED
    assert "resources.requests.ephemeral-storage: a boot disk of 170 GB would be needed" in found.message
    assert "node_disk_size_gb_max allows 150" in found.message
    assert "at most 70Gi" in found.message


def test_a_bound_below_the_usual_disk_means_no_larger_disk() -> None:
    use = settings(node_disk_size_gb_max=0, node_disk_size_gb=200)
    assert disk_of(use, storage_bytes=90 * GIB) == 200
    assert "allows 200" in refuse_shape(use, storage_bytes=120 * GIB).message
