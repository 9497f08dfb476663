"""The state of a pool's owner, by the labels of the pool and the workload of that name."""

import dataclasses
from typing import Any

import pytest
from shared.core.decide.collect import needs_cap
from shared.core.decide.pool_facts import OwnerState, PoolFacts, classify_owner, has_ended, is_owner

from shared.model.workloads import WorkloadView
from tests.builders import a_claim, a_jobset, a_pool
from tests.unit.test_elastic import a_gpu_job
from tests.unit.test_kind_job import ONE_HOST, SINCE_SECONDS, a_job, held

ALL_ENDED = {"completedIndexes": "0-2", "failedIndexes": "3"}
SUSPENDED = {"suspend": True}


def an_indexed_job(*conditions: str, **spec: Any) -> WorkloadView:
    """A Job of four single hosts, each of which has ended."""
    return a_job(template=ONE_HOST, status=ALL_ENDED | held(*conditions), **spec)


def a_jobset_without_slices(terminal: str) -> WorkloadView:
    return dataclasses.replace(a_jobset(), groups=(), terminal=terminal, terminal_since=SINCE_SECONDS)


@pytest.mark.parametrize(
    ("workload", "state", "capped", "ended"),
    [
        pytest.param(an_indexed_job("Complete"), OwnerState.OVER, False, True, id="complete, no index is left"),
        pytest.param(an_indexed_job("Failed"), OwnerState.OVER, False, True, id="failed, no index is left"),
        pytest.param(
            an_indexed_job("Complete", parallelism=0), OwnerState.OVER, False, True, id="complete at size 0"
        ),
        pytest.param(
            an_indexed_job("Complete", **SUSPENDED), OwnerState.OVER, False, True, id="complete, suspended"
        ),
        pytest.param(
            an_indexed_job(), OwnerState.GONE, True, False, id="every index has ended, no word of its end"
        ),
        pytest.param(an_indexed_job(**SUSPENDED), OwnerState.GONE, True, False, id="no index is left, suspended"),
        pytest.param(
            dataclasses.replace(an_indexed_job("Complete"), deleting=True),
            OwnerState.GONE,
            True,
            True,
            id="complete and being deleted",
        ),
        pytest.param(
            dataclasses.replace(an_indexed_job("Complete"), uid="another"),
            OwnerState.GONE,
            True,
            True,
            id="another of the same name is complete",
        ),
        pytest.param(
            dataclasses.replace(an_indexed_job(), uid="another"),
            OwnerState.GONE,
            True,
            True,
            id="another of the same name runs",
        ),
        pytest.param(
            dataclasses.replace(an_indexed_job(), deleting=True), OwnerState.GONE, True, True, id="being deleted"
        ),
        pytest.param(a_gpu_job(status=held("Complete")), OwnerState.OVER, False, True, id="elastic, complete"),
        pytest.param(a_job(template=ONE_HOST), OwnerState.LIVE, True, False, id="it runs"),
        pytest.param(None, OwnerState.GONE, True, True, id="no such Job"),
    ],
)
def test_the_end_of_a_job_is_its_own_word_whatever_its_slices_say(
    workload: WorkloadView | None, state: OwnerState, capped: bool, ended: bool
) -> None:
    known = a_job(template=ONE_HOST)
    pool = a_pool(claim=a_claim(kind="Job", name="train", owner_uid=known.uid, slice_key="default/train-1"))
    owner = pool.owner
    assert owner is not None

    found, since = classify_owner(owner, workload, None)

    facts = PoolFacts(
        pool=pool, owner=found, owner_found=is_owner(owner, workload), workload_over=has_ended(owner, workload)
    )
    assert (found, needs_cap(facts), facts.workload_over) == (state, capped, ended)
    assert since == (SINCE_SECONDS if state == OwnerState.OVER else None)


@pytest.mark.parametrize("terminal", ["Completed", "Failed"])
def test_a_jobset_that_has_ended_is_over_also_for_a_slice_that_it_no_longer_has(terminal: str) -> None:
    owner = a_pool().owner
    assert owner is not None

    assert classify_owner(owner, a_jobset_without_slices(terminal), None) == (OwnerState.OVER, SINCE_SECONDS)
    assert classify_owner(owner, a_jobset_without_slices(""), None) == (OwnerState.GONE, None)
