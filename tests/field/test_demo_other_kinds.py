"""The demo runs workloads of other kinds too, and says why a controller makes no pods."""

from pathlib import Path
from typing import Any

import pytest

from demo.loop.__main__ import choose_controllers
from demo.loop.demo_manifests import BadManifest, load
from demo.loop.other_kinds import OtherOutcome, Scene
from demo.stack.clusters import ClusterKind
from tests.field.planned import INPUTS

WORDS = 'pods "pathways-0" is forbidden: error looking up service account default/kinetic'


def an_event(reason: str, message: str = WORDS) -> dict[str, Any]:
    return {"reason": reason, "message": message}


def a_pod(phase: str) -> dict[str, Any]:
    metadata = {"namespace": "default", "name": "p", "uid": "u"}
    return {"metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase}}


@pytest.mark.parametrize("reason", ["FailedCreate", "JobCreationFailed"])
def test_a_controller_that_makes_no_pods_is_quoted(reason: str) -> None:
    scene = Scene({}, [], [an_event("BackOff", "other"), an_event(reason)])

    assert list(scene.list_obstacles()) == [f"no pods: {reason}: {WORDS}"]


def test_a_refusal_of_the_provisioner_is_quoted_once() -> None:
    scene = Scene({}, [a_pod("Pending")], [an_event("NodePoolRefused", "no such shape")] * 2)

    assert list(scene.list_obstacles()) == ["NodePoolRefused: no such shape"]


@pytest.mark.parametrize(("phases", "runs"), [([], False), (["Running", "Succeeded"], True), (["Pending"], False)])
def test_a_run_is_one_whose_pods_all_run(phases: list[str], *, runs: bool) -> None:
    assert Scene({}, [a_pod(each) for each in phases], []).runs == runs


def test_a_kind_chooses_its_controller_and_the_embedded_cluster_names_its_own(tmp_path: Path) -> None:
    path = tmp_path / "set.yaml"
    path.write_text("apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: l}\n")
    documents = load([str(path)])

    assert choose_controllers(documents, ClusterKind.REAL) == ("lws-0.7",)
    assert choose_controllers(load([str(INPUTS / "no-service-account.yaml")]), ClusterKind.REAL) == ()
    with pytest.raises(
        BadManifest, match="does not run LeaderWorkerSet; valid: JobSet, Job, Pod; or CLUSTER=real"
    ):
        choose_controllers(documents, ClusterKind.EMBEDDED)


def test_a_file_without_a_workload_names_the_kinds_that_are_valid(tmp_path: Path) -> None:
    path = tmp_path / "service.yaml"
    path.write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")

    with pytest.raises(BadManifest, match=r"contains no workload \(found: Service\); valid: "):
        load([str(path)])


def test_the_last_words_say_what_is_left() -> None:
    assert OtherOutcome(pools={"a"}).describe().startswith("Verified: 1 node pools were created and deleted")
    assert OtherOutcome(problems=["pod p is left"]).describe() == "NOT VERIFIED:\n  - pod p is left"
