"""The build files run on a pretended cloud: whole, twice, broken at every call, and destroyed."""

import hashlib
import json
import re
import runpy
import shutil
from pathlib import Path

import pytest

from infra.build.find_by_name import NAMED
from tests.infra import build_cloud
from tests.infra.build_scripts import (
    BESIDE_A_CLUSTER,
    COMMAND_LINES,
    DESTROY,
    OLD_COMMAND_LINE,
    PROVISION,
    Bench,
    find_sdk,
    list_scripts,
    stubbed,
)

DELETE_STATE = {"_DELETE_STATE": "true"}
PRIVATE = {"_CONTROL_PLANE_ACCESS": "private", "_FUNCTIONS_EGRESS": "all"}


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_provisioning_twice_changes_nothing_and_destroying_leaves_nothing(
    request: pytest.FixtureRequest, name: str
) -> None:
    bench, substitutions = request.getfixturevalue(name), COMMAND_LINES[name]
    first = comparable(bench)
    bench.run_all(PROVISION, substitutions)
    assert comparable(bench) == first
    builds = [call for call in bench.calls if call[:2] == ["docker", "build"]]
    assert len(builds) == 1  # another build of the same source would be another digest
    assert len(bench.world["published"]) == 2  # the smoke test asks with a new event each time

    bench.run_all(DESTROY, substitutions | DELETE_STATE)
    left = bench.state
    assert (left["buckets"], left["repositories"], left["terraform"]) == ({}, [], {})
    assert left["pools_removed"]
    bench.run_all(DESTROY, substitutions | DELETE_STATE)
    assert bench.state == left


def test_provisioning_an_environment_makes_what_it_should(environment: Bench) -> None:
    world, folder = environment.world, environment.folder / "build"

    assert world["buckets"] == {
        "gs://old-state-bucket": {
            "versioned": True,
            "objects": [
                "tpu-environment/default.tfstate",
                f"tpu-environment/functions/{archive_of(environment)}",
                "tpu-environment/inputs",
            ],
        }
    }
    assert world["repositories"] == ["a-project/tpu-provisioner-images"]
    names = (
        "exporter-environment.yaml",
        "jobset.yaml",
        "kueue.yaml",
        "training-namespace.json",
        "training-queue.json",
    )
    assert world["cluster"] == [f"kubeconfig-environment {name}" for name in names]
    image = "us-east5-docker.pkg.dev/a-project/tpu-provisioner-images/exporter"
    assert (folder / "exporter-image").read_text() == f"{image}@{build_cloud.DIGEST}\n"
    assert f"{image}" in (folder / "exporter-environment/kustomization.yaml").read_text()
    jobset = (folder / "queueing/jobset/kustomization.yaml").read_text()
    assert "newName: registry.k8s.io/jobset/jobset\n    newTag: v0.11.1\n" in jobset


def test_an_image_of_jobset_or_kueue_is_named_by_its_digest_if_that_is_given(environment: Bench) -> None:
    given = OLD_COMMAND_LINE | {"_KUEUE_DIGEST": build_cloud.DIGEST}
    scripts = ("check-inputs.sh", "provision-06-fetch-queueing.sh", "provision-08-install-queueing.sh")
    output = "".join(environment.step(script, given).stdout for script in scripts)

    folder = environment.folder / "build/queueing"
    kueue, jobset = (folder / each / "kustomization.yaml" for each in ("kueue", "jobset"))
    assert f"newName: registry.k8s.io/kueue/kueue\n    digest: {build_cloud.DIGEST}\n" in kueue.read_text()
    assert "newTag" not in kueue.read_text()
    assert "newTag: v0.11.1\n" in jobset.read_text()
    assert "To name the image by its digest, set JOBSET_DIGEST" in output
    assert "kueue is installed by its tag" not in output


@pytest.mark.parametrize(("given", "flag"), [({}, "--dns-endpoint"), (PRIVATE, "--internal-ip")])
def test_the_build_reaches_a_cluster_by_the_endpoint_that_the_functions_use(
    bench: Bench, given: dict[str, str], flag: str
) -> None:
    bench.run_all(PROVISION, BESIDE_A_CLUSTER | given)
    bench.run_all(DESTROY, BESIDE_A_CLUSTER | given)
    calls = [call for call in bench.calls if "get-credentials" in call]

    assert len(calls) > 1
    assert all(flag in call for call in calls)


def archive_of(bench: Bench) -> str:
    content = (bench.folder / "build/functions.zip").read_bytes()
    return f"functions-{hashlib.sha256(content).hexdigest()[:16]}.zip"


def test_the_functions_of_an_earlier_build_are_deployed_again(beside: Bench) -> None:
    earlier, packed = archive_of(beside), beside.folder / "build/functions.zip"
    content = packed.read_bytes()
    packed.write_bytes(b"the functions of a later source")
    back = BESIDE_A_CLUSTER | {"_FUNCTIONS_ARCHIVE": earlier}
    answer = beside.run_all(PROVISION, back)

    assert packed.read_bytes() == content
    assert any(f"The functions are those of {earlier}, not those of this source" in each for each in answer)
    assert f"_FUNCTIONS_ARCHIVE={earlier}" in answer[-1]
    beside.run_all(DESTROY, back | DELETE_STATE)
    assert beside.state["buckets"] == {}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("provision-02-state-bucket.sh", "is not kept; list those that are with: gcloud storage ls -l gs://"),
        ("provision-03-functions.sh", "was changed after it was kept"),
    ],
)
def test_an_archive_that_is_not_the_kept_one_is_not_deployed(beside: Bench, script: str, complaint: str) -> None:
    before = (beside.folder / "build/functions.zip").read_bytes()
    (beside.folder / "build/functions-kept.zip").write_bytes(b"something else")
    absent = {"_FUNCTIONS_ARCHIVE": "functions-0123456789abcdef.zip"}
    done = beside.step(script, BESIDE_A_CLUSTER | absent, code=1)

    assert "FUNCTIONS_ARCHIVE: " in done.stderr
    assert complaint in done.stderr
    assert (beside.folder / "build/functions.zip").read_bytes() == before


def test_the_exporters_image_is_built_again_by_flag_and_its_tags_say_source_and_day(beside: Bench) -> None:
    (plain,) = beside.world["images"]
    beside.change(calls=[])
    beside.step("provision-05-exporter-image.sh", BESIDE_A_CLUSTER | {"_REBUILD_EXPORTER": "true"})

    world = beside.world
    (dated,) = set(world["images"]) - {plain}
    assert re.fullmatch(rf"{re.escape(plain)}-built-\d{{8}}", dated)
    (build,) = [call for call in world["calls"] if call[1] == "build"]
    assert {"--pull", "--no-cache", f"--tag={plain}", f"--tag={dated}"} <= set(build)


def test_a_released_image_is_copied_and_nothing_is_built(beside: Bench) -> None:
    released = f"ghcr.io/owner/tpu-provisioner/exporter@sha256:{'c' * 64}"
    beside.change(calls=[])
    beside.step("provision-05-exporter-image.sh", BESIDE_A_CLUSTER | {"_EXPORTER_IMAGE": released})

    own = "us-east5-docker.pkg.dev/a-project/tpu-provisioner-images/exporter"
    copy = ["docker", "buildx", "imagetools", "create", "--tag", f"{own}:released-{'c' * 16}", released]
    assert beside.calls.count(copy) == 1
    assert [call for call in beside.calls if call[1] in ("build", "push")] == []
    assert (beside.folder / "build/exporter-image").read_text() == f"{own}@sha256:{'c' * 64}\n"


def test_a_released_image_cannot_be_built_again(bench: Bench) -> None:
    given = {"_EXPORTER_IMAGE": f"ghcr.io/o/exporter@sha256:{'c' * 64}", "_REBUILD_EXPORTER": "true"}
    done = bench.step("check-inputs.sh", BESIDE_A_CLUSTER | given, code=1)

    assert "EXPORTER_IMAGE: is an image that is not built here" in done.stderr


@pytest.mark.parametrize(("unanswered", "published"), [(5, 1), (6, 2), (13, 3)])
def test_the_smoke_test_publishes_again_instead_of_waiting_out_a_pause(
    beside: Bench, unanswered: int, published: int
) -> None:
    beside.change(unanswered=unanswered, published=[], calls=[])
    beside.step("provision-10-smoke.sh", BESIDE_A_CLUSTER)

    world = beside.world
    assert len(world["published"]) == published
    asked = [call[3] for call in world["calls"] if call[1:3] == ["logging", "read"]]
    assert len(asked) == unanswered + 1
    assert asked[-1].count(" OR ") == published - 1


def test_beside_a_cluster_nothing_is_made_in_it_but_the_exporter(beside: Bench) -> None:
    assert beside.world["cluster"] == ["kubeconfig-main exporter-main.yaml"]
    values = json.loads((beside.folder / "build/variables.tfvars.json").read_text())
    assert values["clusters"] == {
        "main": {"name": "there-already", "location": "us-east5", "project": "a-project", "zone": ""}
    }


def test_the_destroy_build_stops_makers_before_it_removes_pools_and_terraform_comes_after(beside: Bench) -> None:
    before = len(beside.calls)
    beside.run_all(DESTROY, BESIDE_A_CLUSTER)
    calls = [" ".join(call) for call in beside.calls[before:]]

    def position(text: str) -> int:
        found = [number for number, call in enumerate(calls) if text in call]
        assert found, f"{text} was not called: {calls}"
        return found[0]

    order = [
        "--check",
        "kubectl delete namespace tpu-provisioner",
        "gcloud scheduler jobs pause projects/a-project/locations/us-east5/jobs/tpu-provisioner-sweep",
        "modify-push-config projects/a-project/subscriptions/tpu-provisioner-provision",
        "modify-push-config projects/a-project/subscriptions/tpu-provisioner-settle",
        "--timeout-seconds",
        " destroy ",
        "gcloud artifacts repositories delete",
    ]
    assert [position(each) for each in order] == sorted(position(each) for each in order)
    assert "gs://a-project-tpu-provisioner-state" in beside.world["buckets"]


@pytest.mark.timeout(900)  # a busy machine does all runs of the scripts in more than five minutes
@pytest.mark.slow
@pytest.mark.parametrize("build_file", [PROVISION, DESTROY], ids=["provision", "destroy"])
def test_a_failure_at_any_call_ends_its_step_and_a_second_run_mends_it(
    request: pytest.FixtureRequest, tmp_path: Path, build_file: Path
) -> None:
    """Each script breaks at each of its calls in turn; the end is as after an unbroken run."""
    destroys = build_file == DESTROY
    bench: Bench = request.getfixturevalue("environment" if destroys else "bench")
    environ = bench.environ(build_file, OLD_COMMAND_LINE | (DELETE_STATE if destroys else {}))
    broken = 0
    for script, variables in list_scripts(build_file):
        values = environ | stubbed(variables)
        shutil.copy(bench.world_file, tmp_path / "before.json")
        bench.change(calls=[])
        bench.run(script, values)
        wanted, calls = comparable(bench), bench.calls
        shutil.copy(bench.world_file, tmp_path / "after.json")
        for number in range(1, len(calls) + 1):
            shutil.copy(tmp_path / "before.json", bench.world_file)
            bench.change(calls=[], fail_at=number)
            done = bench.run(script, values, code=None)
            if not is_forgiven(calls[number - 1]):
                assert done.returncode != 0, f"{script} went on after {calls[number - 1]}"
                assert "something broke" in done.stderr, f"{script} hides why {calls[number - 1]} failed"
            bench.change(calls=[], fail_at=0)
            again = bench.run(script, values, code=None)
            assert again.returncode == 0, f"{script} after {calls[number - 1]}:\n{again.stdout}{again.stderr}"
            assert comparable(bench) == wanted, f"{script} after {calls[number - 1]}"
            broken += 1
        shutil.copy(tmp_path / "after.json", bench.world_file)
    assert broken > 10


@pytest.mark.tool
def test_gcloud_has_every_command_and_flag_that_the_scripts_use(environment: Bench) -> None:
    """By the table that gcloud completes command lines from."""
    environment.run_all(DESTROY, OLD_COMMAND_LINE | DELETE_STATE)
    environment.run("deployer.sh", {"PROJECT_ID": "a-project"})
    table = runpy.run_path(str(find_sdk() / "data/cli/gcloud_completions.py"))["STATIC_COMPLETION_CLI_TREE"]
    calls = [call[1:] for call in environment.calls if call[0] == "gcloud"]
    calls += [kind.words.split() for kind in NAMED.values()]
    assert len(calls) > 30
    for call in calls:
        node, words = table, list(call)
        while words and words[0] in node["commands"]:
            node = node["commands"][words.pop(0)]
        assert not node["commands"], f"gcloud {' '.join(call)}: no such command"
        flags = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert flags <= node["flags"].keys() | table["flags"].keys(), f"gcloud {' '.join(call)}"


def is_forgiven(call: list[str]) -> bool:
    """Return whether a failure of this call may be got over by the script itself."""
    retried = r"docker pu|logging read|training-queue\.json| destroy |identity create|get deployment"
    asked = r"default\.tflock|inputs-before|iam roles list|repositories describe|scheduler jobs describe"
    looked = r"locations list|regions list|displayName"
    return re.search(f"{retried}|{asked}|{looked}", " ".join(call)) is not None


def comparable(bench: Bench) -> dict[str, object]:
    """Return the world, without what a second try does once more: a test event, a push."""
    return bench.state | {"published": [], "serial": 0}


def test_beside_a_cluster_jobset_is_installed_only_when_it_is_asked_for(beside: Bench) -> None:
    for script in ("provision-06-fetch-queueing.sh", "provision-08-install-queueing.sh"):
        beside.step(script, BESIDE_A_CLUSTER | {"_JOBSET_API_VERSION": "v0.12.0"})

    assert beside.world["cluster"] == ["kubeconfig-main exporter-main.yaml", "kubeconfig-main jobset.yaml"]
    assert "newTag: v0.12.0" in (beside.folder / "build/queueing/jobset/kustomization.yaml").read_text()


@pytest.mark.parametrize(
    ("message", "force", "code"),
    [
        ("ERROR: ResponseError: code=404, message=Not found: projects/p/clusters/c.", "false", 0),
        ("ERROR: ResponseError: code=403, message=Required permission", "true", 1),
    ],
)
def test_a_cluster_that_is_gone_needs_no_stopping_and_one_that_is_forbidden_does(
    beside: Bench, message: str, force: str, code: int
) -> None:
    beside.change(calls=[], fail_at=1, fail_text=message)
    done = beside.step("destroy-02-exporter.sh", BESIDE_A_CLUSTER | {"_FORCE": force}, code=code)

    assert message in done.stderr
    assert ("there-already does not exist any more" in done.stdout) == (code == 0)
    assert len(beside.calls) == 1


@pytest.mark.parametrize(("force", "code"), [("false", 1), ("true", 0)])
def test_an_exporter_that_cannot_be_stopped_ends_the_build_unless_forced(
    beside: Bench, force: str, code: int
) -> None:
    beside.change(calls=[], fail_at=2)
    done = beside.step("destroy-02-exporter.sh", BESIDE_A_CLUSTER | {"_FORCE": force}, code=code)

    assert ("to continue without that, set FORCE=true" in done.stderr) == (code == 1)
