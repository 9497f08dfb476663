"""What the simulated kubelet does with a pod whose containers fail and restart in place."""

from typing import Any

import pytest

from standins.kubelet.run_plan import EXIT_CODE, FAIL_RUNS, PlanError, plan_for


def pod(policy: str, **annotations: str) -> dict[str, Any]:
    fields = {f"local.tpu-provisioner/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"metadata": {"name": "p", "annotations": fields}, "spec": {"restartPolicy": policy}}


def test_containers_fail_as_often_as_they_are_told_and_then_succeed_in_the_same_pod() -> None:
    plan = plan_for(pod("OnFailure", fail_runs="2"), run_seconds=10)
    assert [plan.exit_code_of(restarts) for restarts in range(4)] == [1, 1, 0, 0]
    assert [plan.restarts_in_place(restarts) for restarts in range(4)] == [True, True, False, False]


def test_they_fail_with_the_exit_code_of_the_pod() -> None:
    plan = plan_for(pod("OnFailure", fail_runs="1", exit_code="42"), run_seconds=10)
    assert [plan.exit_code_of(restarts) for restarts in range(2)] == [42, 0]


def test_a_pod_that_never_restarts_fails_at_once() -> None:
    plan = plan_for(pod("Never", fail_runs="1"), run_seconds=10)
    assert plan.exit_code_of(0) == 1
    assert not plan.restarts_in_place(0)


def test_without_the_annotation_every_run_ends_alike() -> None:
    failing, fine = (plan_for(pod("OnFailure", exit_code=code), run_seconds=10) for code in ("1", "0"))
    assert {failing.exit_code_of(restarts) for restarts in range(9)} == {1}
    assert {fine.exit_code_of(restarts) for restarts in range(9)} == {0}


def test_a_count_that_is_no_number_is_refused_by_name() -> None:
    with pytest.raises(PlanError, match=FAIL_RUNS):
        plan_for(pod("OnFailure", fail_runs="often"), run_seconds=10)
    with pytest.raises(PlanError, match=EXIT_CODE):
        plan_for(pod("OnFailure", exit_code="bad"), run_seconds=10)
