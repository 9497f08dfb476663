"""`plan` opens a TrainJob whose runtime is in the files; of another it says who gets pools."""

from tests.cli.cli_world import run
from tests.field.planned import INPUTS, plan, plan_needs

NAME = "trainjobs.yaml"
GETS = {
    "before-its-runtime": (2, 4, "ct5lp-hightpu-4t"),
    "verify-2x4": (2, 4, "ct5lp-hightpu-4t"),
    "on-gpus": (1, 3, "g2-standard-4"),
}
ELSEWHERE = "(Trainer makes a JobSet of it, which gets its pools; plan that JobSet"


def test_with_its_runtime_it_gets_the_pools_of_its_jobset() -> None:
    needs = plan_needs(NAME)
    assert "Limit must be set for non overcommitable resources" in needs.pop("requests-only")["message"]
    got = {name: (need["pools"], need["node_count"], need["machine_type"]) for name, need in needs.items()}

    assert got == GETS
    assert needs["verify-2x4"]["notes"] == [
        "made by TrainJob verify-2x4",
        "from the TrainingRuntime jax-two-slices",
    ]


def test_without_it_or_with_changes_its_jobset_is_named() -> None:
    others = plan(NAME)["not_planned"]

    assert f"TrainJob changed-here {ELSEWHERE})" in others
    assert f"TrainJob runtime-elsewhere {ELSEWHERE}, or give the TrainingRuntime jax-two-slices too)" in others


def test_nodes_that_no_slice_gets_are_named() -> None:
    result = run("plan", str(INPUTS / NAME))

    assert result.exit_code == 2
    assert "spec.trainer.numNodes: is not valid (got '3'); valid: a multiple of its 2 slices" in result.stderr
