"""A demo whose slices lie on several pools does not end with "Verified"."""

import pytest

from demo.loop.observations import Decided, JobSetSeen, NodeSeen, PodSeen, SliceSpec
from demo.loop.timeline import Timeline

HOME, JOBSET = "default", "four-slices"
POOLS = ("four-slices-aaaaaaaaaaa-0", "four-slices-bbbbbbbbbbb-0")


def run(placed: dict[tuple[int, int], int], *, topology: str = "2x4") -> Timeline:
    """Two slices of two pods, each pod on a node of one of two pools."""
    timeline = Timeline([(HOME, JOBSET)], 0.0)
    jobs = tuple(SliceSpec(job=f"{JOBSET}-slice-{number}", pods=2) for number in range(2))
    timeline.observe(JobSetSeen(at=0.0, namespace=HOME, name=JOBSET, slices=jobs))
    for slot, pool in enumerate(POOLS):
        own = {"namespace": HOME, "workload": JOBSET, "slot": str(slot), "pool": pool, "topology": topology}
        timeline.observe(
            Decided(at=1.0, function="provision", decision="create", reason="pool_absent", node_count=2, **own)
        )
        for host in range(2):
            timeline.observe(NodeSeen(at=2.0, name=f"{pool}-{host}", pool=pool, ready=True))
    for (number, host), slot in placed.items():
        name = f"{JOBSET}-slice-{number}-{host}"
        timeline.observe(
            PodSeen(
                at=3.0,
                namespace=HOME,
                name=name,
                uid=name,
                job=f"{JOBSET}-slice-{number}",
                index=str(host),
                phase="Running",
                node=f"{POOLS[slot]}-{host}",
                jobset=JOBSET,
            )
        )
    return timeline


def test_slices_that_lie_on_several_pools_are_a_problem() -> None:
    mixed = run({(0, 0): 0, (0, 1): 1, (1, 0): 1, (1, 1): 0}).list_mixed()

    assert [all(pool in text for pool in POOLS) and "[slice_mixed]" in text for text in mixed] == [True, True]


@pytest.mark.parametrize(
    ("placed", "topology"),
    [
        ({(0, 0): 0, (0, 1): 0, (1, 0): 1, (1, 1): 1}, "2x4"),
        ({(0, 0): 1, (0, 1): 1, (1, 0): 0, (1, 1): 0}, "2x4"),
        ({(0, 0): 0, (0, 1): 1, (1, 0): 1, (1, 1): 0}, ""),
    ],
    ids=["each on its own", "each on the other's", "nodes that form no slice"],
)
def test_other_slices_are_none(placed: dict[tuple[int, int], int], topology: str) -> None:
    assert run(placed, topology=topology).list_mixed() == []
