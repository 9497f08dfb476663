"""Inputs that name something else than what is deployed: what the builds answer."""

import pytest

from infra.build.check_state import find_difference, find_kept_difference
from tests.infra import pretended_deployment
from tests.infra.build_scripts import OLD_COMMAND_LINE, Bench, list_inputs
from tests.infra.changed_inputs import APPLIED, ELSEWHERE, REFUSED
from tests.infra.pretended_deployment import a_resource, a_state

INPUTS = {
    "PROJECT_ID": "a-project",
    "REGION": "us-east5",
    "NAME": "tpu-provisioner",
    "CLUSTER_NAME": "training",
    "ARTIFACT_REPOSITORY_BUCKET_NAME": "training-artifacts",
    "IMAGE_REPOSITORY": "training-images",
}
TOPIC = "projects/a-project/topics/tpu-provisioner-workload-events"

STATE = {"gs://old-state-bucket": {"objects": ["tpu-environment/default.tfstate"]}}
"""Of a deployment that was destroyed: the state is there, and has nothing."""


def test_it_is_known_of_every_input_what_a_change_of_it_does() -> None:
    """test_deploy_changed_inputs.py and test_deploy_lifecycle.py change them on the mock."""
    assert sorted([*APPLIED, *REFUSED, *ELSEWHERE]) == sorted(list_inputs())


@pytest.mark.parametrize(
    ("project", "name"), [("a-project", "blue"), ("another", "tpu-provisioner"), ("a-project", "tpu-provisione")]
)
def test_a_state_of_another_deployment_is_refused(project: str, name: str) -> None:
    made = a_resource(pretended_deployment.TOPIC, project=project, name=f"{name}-workload-events")
    refused = find_difference(a_state(made), INPUTS)

    assert f"is the state of the deployment {name} of {project}, and the inputs name tpu-provisioner of" in refused


def test_the_name_of_the_deployment_is_that_of_its_topic() -> None:
    made = a_resource(pretended_deployment.TOPIC, project="a-project", name=TOPIC.rpartition("/")[2])

    assert find_difference(a_state(made), INPUTS | {"CREATE_ENVIRONMENT": "false"}) == ""


def test_what_destroy_may_keep_has_the_name_that_the_inputs_give() -> None:
    made = [
        a_resource(pretended_deployment.ARTIFACTS, name="training-artifacts"),
        a_resource(pretended_deployment.IMAGES, repository_id="training-images"),
    ]

    assert find_kept_difference(a_state(*made), INPUTS) == ""
    assert find_kept_difference(a_state(), {}) == ""
    assert find_kept_difference(a_state(*made), INPUTS | {"IMAGE_REPOSITORY": ""}) == (
        "IMAGE_REPOSITORY: is not what this deployment has (got: ); valid: training-images"
    )


def test_destroy_with_a_strangers_bucket_is_refused_before_anything_is_stopped(bench: Bench) -> None:
    values = {"project_id": "a-project", "name": "tpu-provisioner", "region": "us-east5"}
    values |= {"cluster_name": "tpu-cluster", "artifact_repository_bucket_name": "training-artifacts"}
    bench.change(terraform=pretended_deployment.deploy(values), buckets=STATE)
    wrong = OLD_COMMAND_LINE | {"_ARTIFACT_REPOSITORY_BUCKET_NAME": "a-strangers"}
    bench.step("terraform-init.sh", wrong)
    bench.change(calls=[])
    for script in ("destroy-01-workloads.sh", "destroy-05-terraform.sh"):
        done = bench.step(script, wrong, code=1)
        assert "is not what this deployment has (got: a-strangers); valid: training-artifacts" in done.stderr
    assert bench.calls == []


def destroy(bench: Bench, *, code: int, **given: str) -> str:
    """Run the destroy build's Terraform, which must end so; return what it said."""
    substitutions = OLD_COMMAND_LINE | {f"_{name}": value for name, value in given.items()}
    bench.step("terraform-init.sh", substitutions)
    (bench.folder / "build/functions.zip").touch()
    done = bench.step("destroy-05-terraform.sh", substitutions, code=code)
    return done.stdout + done.stderr


def test_a_bucket_of_others_is_never_named_with_the_command_that_deletes_it(bench: Bench) -> None:
    buckets = {"gs://a-strangers": {"objects": ["results"]}}
    bench.change(buckets=buckets, strangers=["gs://a-strangers"])
    answer = destroy(bench, code=0, ARTIFACT_REPOSITORY_BUCKET_NAME="a-strangers", DELETE_ARTIFACTS="true")

    assert "Not deleted: gs://a-strangers is not in the state, and no label says" in answer
    assert "storage rm" not in answer
    assert bench.world["buckets"] == buckets


def test_destroy_deletes_the_repository_that_the_build_made_and_no_other(bench: Bench) -> None:
    repository = "a-project/tpu-provisioner-images"
    bench.change(repositories=[repository], strangers=["tpu-provisioner-images"])
    done = bench.step("destroy-06-images.sh", OLD_COMMAND_LINE)
    assert "Not deleted: us-east5-docker.pkg.dev/a-project/tpu-provisioner-images, because its" in done.stdout
    assert bench.world["repositories"] == [repository]

    bench.change(strangers=[])
    assert "Deleting " in bench.step("destroy-06-images.sh", OLD_COMMAND_LINE).stdout
    assert bench.world["repositories"] == []


GREEN = "projects/a-project/topics/green-workload-events"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"NAME": "wrong", "TF_STATE_BUCKET": ""}, "nothing was ever deployed as wrong in a-project"),
        ({"NAME": "wrong", "TF_STATE_PREFIX": ""}, "(got: wrong); valid: tpu-provisioner, green. If wrong is"),
        ({"TF_STATE_BUCKET": "other-states"}, "gs://other-states/tpu-environment knows nothing of it"),
        ({}, "If the state is lost, run the provision build, which finds again what it made"),
    ],
)
def test_destroy_of_nothing_fails_where_something_is_deployed(
    bench: Bench, given: dict[str, str], message: str
) -> None:
    bench.change(buckets=STATE, topics=[TOPIC, GREEN, "projects/a-project/topics/x"])

    assert message in destroy(bench, code=1, **given)
    if not given:
        assert "The build continues, because FORCE=true" in destroy(bench, code=0, FORCE="true")


def test_a_second_run_of_destroy_changes_nothing_beside_another_deployment(bench: Bench) -> None:
    bench.change(buckets=STATE, topics=[GREEN])

    assert "green" not in destroy(bench, code=0)


@pytest.mark.parametrize(("answer", "code"), [("ERROR: SERVICE_DISABLED: is disabled", 0), ("ERROR: denied", 1)])
def test_topics_that_cannot_be_listed_are_not_taken_for_none(bench: Bench, answer: str, code: int) -> None:
    bench.change(fail_at=2, fail_text=answer)
    found_answer = destroy(bench, code=code)

    assert bench.calls[1][1:4] == ["pubsub", "topics", "list"]
    assert ("it is not known whether something is deployed" in found_answer) == bool(code)
