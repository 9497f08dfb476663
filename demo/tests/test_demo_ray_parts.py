"""The pure parts of Ray on the local cloud: how a container is started, how a run is judged."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from demo.loop.observations import Called
from demo.ray.checks import list_problems
from demo.ray.ray_manifests import ray_cluster
from demo.ray.ray_run import Outcome
from demo.ray.recording import BEGIN, END, BadRecord, check_record, write_record
from demo.ray.run_log import Facts, Line, Look, RunLog
from standins.kubelet.container_command import NoValue, arguments_of, environment_of
from standins.kubelet.images import BadImage, Images

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"ray.io/group": "tpus"}},
    "spec": {"nodeName": "node-1"},
}


def a_container(**fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "i", "command": ["/bin/bash", "-c", "--"]} | fields


def environment(**fields: Any) -> dict[str, str]:
    folders = {"image": Path("/image"), "folder": Path("/pod")}
    return environment_of(POD, a_container(**fields), **folders, server="https://127.0.0.1:16443")


def test_a_container_gets_its_variables_as_kubernetes_resolves_them() -> None:
    found = environment(
        env=[
            {"name": "GROUP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['ray.io/group']"}}},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "BOTH", "value": "$(GROUP)/$(NODE) $$(GROUP) $(ABSENT)"},
            {"name": "HEAD", "value": "demo-head-svc.n.svc.cluster.local:6379"},
        ],
        resources={"limits": {"cpu": "2"}},
    )

    assert (found["GROUP"], found["NODE"]) == ("tpus", "node-1")
    assert found["CPUS"] == "2"
    assert found["BOTH"] == "tpus/node-1 $(GROUP) $(ABSENT)"
    assert found["HEAD"] == "127.0.0.1:6379"
    assert found["PATH"].startswith("/image/bin:")
    assert (found["KUBERNETES_SERVICE_HOST"], found["KUBERNETES_SERVICE_PORT_HTTPS"]) == ("127.0.0.1", "16443")


@pytest.mark.parametrize(
    "source",
    [
        {"secretKeyRef": {"name": "s", "key": "k"}},
        {"fieldRef": {"fieldPath": "status.phase"}},
        {"resourceFieldRef": {"resource": "limits.cpu"}},
    ],
)
def test_a_variable_of_an_unknown_source_is_refused_by_name(source: dict[str, Any]) -> None:
    with pytest.raises(NoValue, match="variable X"):
        environment(env=[{"name": "X", "valueFrom": source}])


def test_a_container_runs_what_it_says_or_what_its_image_does(tmp_path: Path) -> None:
    answer = arguments_of(a_container(args=["ray $(SUB)"]), {"SUB": "start"}, tmp_path)
    assert answer[-1] == "ray start"
    with pytest.raises(NoValue, match="no command"):
        arguments_of(a_container(command=[]), {}, tmp_path)

    program = tmp_path / "bin" / "entrypoint"
    program.parent.mkdir()
    program.touch()
    assert arguments_of(a_container(args=["ray $(SUB)"]), {"SUB": "start"}, tmp_path) == answer
    assert arguments_of(a_container(command=[], args=["now"]), {}, tmp_path) == (str(program), "now")


def test_an_image_is_a_folder_with_programs(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    images = Images.from_options([f"a:1={tmp_path}"])

    assert images.has_all_of({"spec": {"containers": [{"image": "a:1"}]}})
    assert not images.has_all_of({"spec": {"initContainers": [{"image": "b"}], "containers": [{"image": "a:1"}]}})
    for option in ("a:1", f"={tmp_path}", f"a={tmp_path}/bin"):
        with pytest.raises(BadImage, match="valid: NAME=FOLDER"):
            Images.from_options([option])


def test_the_cluster_has_the_groups_that_are_asked_for() -> None:
    body = ray_cluster("2.60.0", ("TPU", "GPU"), gcs_port=1, client_port=2)

    groups = {each["groupName"]: each for each in body["spec"]["workerGroupSpecs"]}
    assert groups["tpus"]["numOfHosts"] == 2
    limits = groups["gpus"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == "1"


def good_facts() -> Facts:
    answers = [{"kind": "TPU", "pod": name} for name in ("a", "b")]
    calls = [Called(at=1, method=each, pool="p", code="OK") for each in ("CreateNodePool", "DeleteNodePool")]
    return Facts(
        answers=answers,
        let_go={"TPU"},
        calls=calls,
        pool_of_pod={"a": "p", "b": "p"},
        replica_of_pod={"a": "r", "b": "r"},
        replicas_seen={"tpus": [0, 1, 0]},
    )


def test_a_good_run_has_no_problems() -> None:
    assert list_problems(good_facts(), ("TPU",)) == []


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("answers", [], "answered from 0 workers"),
        ("pool_of_pod", {"a": "p", "b": "q"}, "not on one pool"),
        ("replica_of_pod", {"a": "r", "b": "s"}, "several replicas"),
        ("replicas_seen", {"tpus": [0, 1]}, "replicas went"),
        ("calls", [], "GKE accepted CreateNodePool 0 times"),
        ("calls", [Called(at=1, method="GetNodePool", pool="p", code="OK")] * 9, "9 calls about p"),
    ],
)
def test_each_thing_that_is_not_as_it_should_be_is_named(field: str, value: Any, problem: str) -> None:
    facts = good_facts()
    setattr(facts, field, value)

    assert any(problem in each for each in list_problems(facts, ("TPU",)))


def a_look(
    at: float, *, replicas: int = 0, leaving: tuple[str, ...] = (), pools: dict[str, str] | None = None
) -> Look:
    group = {"groupName": "tpus", "replicas": replicas, "scaleStrategy": {"workersToDelete": list(leaving)}}
    cluster = {"spec": {"workerGroupSpecs": [group]}}
    return Look(at=at, clusters=[cluster], pods=[], nodes=[], pools=pools or {}, records=[], driver=[])


def test_the_run_log_tells_each_change_once() -> None:
    run_log = RunLog()
    looks = [
        a_look(1),
        a_look(2, replicas=1),
        a_look(3, replicas=1, pools={"p": "RUNNING"}),
        a_look(4, replicas=1, pools={"p": "RUNNING"}),
        a_look(5, replicas=0, leaving=("a", "b")),
        a_look(6, replicas=0, leaving=("a", "b")),
    ]

    told = [line.what for look in looks for line in run_log.take(look)]

    assert told == [
        "sets replicas of tpus from 0 to 1",
        "says p is RUNNING",
        "sets replicas of tpus from 1 to 0, naming a and b to leave",
        "has deleted p",
    ]
    assert run_log.facts.replicas_seen == {"tpus": [0, 1, 0]}


def test_the_run_log_says_what_failed() -> None:
    pod = {"metadata": {"name": "w"}, "spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}
    look = replace(a_look(1), pods=[pod], driver=[{"step": "failed", "at": 2, "error": "the actor died"}])

    assert [(line.who, line.what) for line in RunLog().take(look)][-2:] == [
        ("kubelet", "reports as failed w"),
        ("driver", "fails: the actor died"),
    ]


def test_a_record_replaces_the_one_before(tmp_path: Path) -> None:
    document = tmp_path / "d.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    outcome = Outcome(
        lines=[Line(12.0, "GKE", "says p is RUNNING")],
        problems=[],
        started_at=10.0,
        kinds=("TPU",),
        calls={"p": {"X": 2}},
    )
    for _ in range(2):
        write_record(document, outcome, versions="Ray 1", speed=30)

    text = document.read_text()
    assert (text[:7], text[-6:]) == ("before\n", "after\n")
    assert "old" not in text
    assert text.count("| 2.0 | GKE | says p is RUNNING |") == 1
    with pytest.raises(BadRecord, match="there must be"):
        check_record(tmp_path / "absent.md")
