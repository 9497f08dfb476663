"""The build files' scripts in order on a pretended cloud: one whole walk, and one kill."""

import hashlib
import runpy

import pytest

from infra.build.find_by_name import NAMED
from tests.infra import build_cloud
from tests.infra.build_scripts import DESTROY, OLD_COMMAND_LINE, PROVISION, Bench, find_sdk

DELETE_STATE = {"_DELETE_STATE": "true"}
MARK = "old-state-bucket/tpu-environment/unfinished-build"
EXISTS = """
Error: googleapi: Error 409: Topic already exists
  with module.provisioner.google_pubsub_topic.workload_events,
"""
FRESH = "Error: googleapi: Error 403: Permission 'iam.serviceaccounts.actAs' denied on service account x"


def comparable(bench: Bench) -> dict[str, object]:
    """Return the world, without the test event that each build publishes."""
    return bench.state | {"published": [], "serial": 0}


def archive_of(bench: Bench) -> str:
    content = (bench.folder / "build/functions.zip").read_bytes()
    return f"functions-{hashlib.sha256(content).hexdigest()[:16]}.zip"


def test_an_environment_is_made_once_planned_and_destroyed_in_an_order_that_loses_no_pool(bench: Bench) -> None:
    said = "".join(bench.run_all(PROVISION, OLD_COMMAND_LINE))
    first, world = comparable(bench), bench.world
    assert bench.objects == [
        "old-state-bucket/tpu-environment/default.tfstate",
        f"old-state-bucket/tpu-environment/functions/{archive_of(bench)}",
        "old-state-bucket/tpu-environment/inputs",
    ]
    assert world["repositories"] == ["a-project/tpu-provisioner-images"]
    assert [each.split()[1] for each in world["cluster"]] == [
        *(
            "jobset.yaml",
            "kueue.yaml",
            "tpu-provisioner-exporter",
            "training-namespace.json",
            "training-queue.json",
        )
    ]
    image = "us-east5-docker.pkg.dev/a-project/tpu-provisioner-images/exporter"
    assert (bench.folder / "build/exporter-image").read_text() == f"{image}@{build_cloud.DIGEST}\n"
    assert "Not set: a limit on chips, so this deployment buys at most 256 chips in a cluster" in said

    bench.run_all(PROVISION, OLD_COMMAND_LINE)
    assert comparable(bench) == first
    assert sum(call[:2] == ["docker", "build"] for call in bench.calls) == 1
    planned = "".join(bench.run_all(PROVISION, OLD_COMMAND_LINE | {"_PLAN_ONLY": "true"}))
    assert comparable(bench) == first
    assert planned.count("Only planned: ") == 8
    inits = [call for call in bench.calls if call[0] == "terraform" and "init" in call]
    assert all("-lockfile=readonly" in call for call in inits)

    before = len(bench.calls)
    bench.run_all(DESTROY, OLD_COMMAND_LINE | DELETE_STATE)
    calls = [" ".join(call) for call in bench.calls[before:]]
    order = [
        "--check",
        "jobs pause projects/a-project/locations/us-east5/jobs/tpu-provisioner-provision-environment",
        "jobs pause projects/a-project/locations/us-east5/jobs/tpu-provisioner-collect-environment",
        "modify-push-config projects/a-project/subscriptions/tpu-provisioner-provision ",
        "modify-push-config projects/a-project/subscriptions/tpu-provisioner-provision-ends",
        "kubectl delete namespace tpu-provisioner",
        "--timeout-seconds",
        "state rm -lock-timeout=20m module.environment.google_storage_bucket.artifacts",
        " destroy ",
        "gcloud artifacts repositories delete",
    ]
    places = [next(number for number, call in enumerate(calls) if each in call) for each in order]
    assert places == sorted(places)
    left = bench.state
    assert (left["objects"], left["repositories"], left["terraform"]) == ([], [], {})
    assert left["pools_removed"]


def test_after_a_kill_destroy_refuses_and_the_next_build_takes_over_what_is_there(bench: Bench) -> None:
    bench.apply(OLD_COMMAND_LINE, build_cloud.KILLED, code=1)
    assert MARK in bench.objects
    bench.step("terraform-init.sh", OLD_COMMAND_LINE)
    refused = bench.step("destroy-01-workloads.sh", OLD_COMMAND_LINE, code=1)
    assert "the last provision build was killed, or still runs" in refused.stderr

    said = bench.apply(OLD_COMMAND_LINE, EXISTS, FRESH).stdout
    assert "A killed build created these resources, so this build imports them" in said
    assert "may have no effect yet: wait 1 of" in said
    adopted = (bench.folder / "build/roots/complete/adopted.tf").read_text()
    assert adopted.count("to = module.provisioner.google_pubsub_topic.workload_events\n") == 1
    assert MARK not in bench.objects
    refused = bench.step("terraform-init.sh", OLD_COMMAND_LINE | {"_CLUSTER_NAME": "second"}, code=1)
    assert "clusters/tpu-cluster, and the inputs name" in refused.stderr


@pytest.mark.tool
def test_gcloud_has_every_command_and_flag_that_the_scripts_use(bench: Bench) -> None:
    """By the table that gcloud completes command lines from."""
    bench.run_all(PROVISION, OLD_COMMAND_LINE)
    bench.run_all(DESTROY, OLD_COMMAND_LINE | DELETE_STATE)
    bench.run("deployer.sh", {"PROJECT_ID": "a-project"})
    table = runpy.run_path(str(find_sdk() / "data/cli/gcloud_completions.py"))["STATIC_COMPLETION_CLI_TREE"]
    calls = [call[1:] for call in bench.calls if call[0] == "gcloud"]
    calls += [kind.words.split() for kind in NAMED.values()]
    assert len(calls) > 30
    for call in calls:
        node, words = table, list(call)
        while words and words[0] in node["commands"]:
            node = node["commands"][words.pop(0)]
        assert not node["commands"], f"gcloud {' '.join(call)}: no such command"
        flags = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert flags <= node["flags"].keys() | table["flags"].keys(), f"gcloud {' '.join(call)}"
