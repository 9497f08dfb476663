"""The slices of a workload's spec by name, as its live pods would name them."""

from shared.kinds.kind import SliceOfPod, name_slice
from shared.kinds.table import get_kind
from shared.model.workloads import SliceGroup, WorkloadView


def list_slices(workload: WorkloadView) -> list[SliceOfPod]:
    """Each slice, and each elastic group once."""
    return [
        SliceOfPod(name=name_slice(workload, group, slot), group=group)
        for group in get_kind(workload.kind).list_groups(workload)
        for slot in _list_slots(workload, group)
    ]


def _list_slots(workload: WorkloadView, group: SliceGroup) -> list[str]:
    only = group.slots is None and workload.kind in ("Job", "StatefulSet")
    return [""] if group.elastic or (only and group.replicas) else [str(each) for each in range(group.replicas)]
