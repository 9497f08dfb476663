"""The simulated kubelet: pods whose containers are real processes, and requests that outlive their
pod.
"""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from standins.kubelet.container_command import TOKEN_FOLDER
from standins.kubelet.images import Images
from standins.kubelet.kubelet import Kubelet
from standins.kubelet.pod_processes import PodProcesses
from standins.kubelet.statuses import partly_ended

Json = dict[str, Any]
WAIT_SECONDS = 240.0
MOUNT = {"name": "token", "mountPath": f"/{TOKEN_FOLDER}"}


@pytest.fixture
def images(tmp_path: Path) -> Images:
    folder = tmp_path / "image"
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "note"
    program.write_text('#!/bin/sh\necho "$@" >> "$NOTES"\n')
    program.chmod(0o755)
    return Images.from_options([f"real={folder}"])


def a_container(name: str, script: str, notes: Path, **fields: Any) -> Json:
    environment = [{"name": "NOTES", "value": str(notes)}]
    command = ["/bin/sh", "-c", "--", script]
    return {"name": name, "image": "real", "command": command, "env": environment} | fields


def a_pod(*containers: Json, init: tuple[Json, ...] = ()) -> Json:
    return {
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {"nodeName": "node", "containers": list(containers), "initContainers": list(init)},
        "status": {"phase": "Pending"},
    }


class Api:
    """What the kubelet asks of the API server, and the phases that it writes."""

    def __init__(self, seconds: float = 0) -> None:
        self.seconds = seconds
        self.phases: list[str] = []
        self.asked = self.deleted = False
        self.client = httpx.AsyncClient(
            base_url="https://127.0.0.1:1", transport=httpx.MockTransport(self._answer)
        )

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked = True
        await asyncio.sleep(self.seconds)
        if request.url.path.endswith("/token"):
            return httpx.Response(201, json={"status": {"token": "secret"}})
        if request.url.path.endswith("/kube-root-ca.crt"):
            return httpx.Response(200, json={"data": {"ca.crt": "certificate"}})
        if request.method == "PATCH":
            self.phases.append(json.loads(request.content)["status"]["phase"])
        self.deleted = self.deleted or request.method == "DELETE"
        return httpx.Response(200, json={})


def live(pod: Json, api: Api, images: Images, folder: Path, end: Callable[[], object]) -> None:
    """Let a kubelet run a pod until `end` is true."""

    async def run() -> None:
        kubelet = Kubelet(api.client, speed=60, run_seconds=1, images=images, logs=folder / "logs")
        kubelet.see(pod, gone=False)
        await until(end)

    asyncio.run(run())


async def until(done: Any) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def test_init_containers_run_first_and_a_failed_one_again(images: Images, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    init = a_container("first", f"note first; test $(wc -l < {notes}) = 2", notes)
    pod = a_pod(a_container("main", "note main", notes), init=(init,))

    async def live() -> dict[str, int]:
        processes = PodProcesses(Api().client, pod, images, tmp_path / "logs")
        await processes.prepare()
        processes.start_all()
        found = await processes.wait_for_an_end(0)
        await processes.end(1)
        return found

    assert asyncio.run(live()) == {"main": 0}
    assert notes.read_text().split() == ["first", "first", "main"]


def test_a_container_finds_the_token_of_its_account(images: Images, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    reader = a_container("main", f'note $(cat "$POD_FOLDER/{TOKEN_FOLDER}/token")', notes, volumeMounts=[MOUNT])
    api = Api()
    live(a_pod(reader), api, images, tmp_path, lambda: "Succeeded" in api.phases)

    assert notes.read_text() == "secret\n"
    assert api.phases == ["Running", "Succeeded"]


def test_a_deleted_pod_s_processes_end_before_the_pod_is_gone(images: Images, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    script = 'trap "note ended; exit 0" TERM; note began; while :; do sleep 0.05; done'
    pod = a_pod(a_container("main", script, notes))
    api = Api()

    async def live() -> None:
        kubelet = Kubelet(api.client, speed=60, run_seconds=1, images=images, logs=tmp_path / "logs")
        kubelet.see(pod, gone=False)
        await until(lambda: notes.exists() and notes.read_text())  # it is there before anything stands in it
        deleted = pod | {"metadata": pod["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        kubelet.see(deleted, gone=False)
        await until(lambda: api.deleted)

    asyncio.run(live())
    assert notes.read_text().split() == ["began", "ended"]
    assert not list(tmp_path.glob("pod-*"))


def test_the_time_of_a_pod_may_count_only_once_other_pods_of_its_jobset_run() -> None:
    apis = [Api(), Api()]
    pods = [a_pod({"name": "main", "image": "simulated"}) for _ in apis]
    for number, pod in enumerate(pods):
        pod["spec"]["restartPolicy"] = "Never"
        pod["metadata"] |= {
            "uid": f"u{number}",
            "labels": {"jobset.sigs.k8s.io/jobset-name": "train"},
            "annotations": {"local.tpu-provisioner/pods-together": "2"},
        }
    seen: list[list[str]] = []

    async def live() -> None:
        first, second = [Kubelet(api.client, speed=1000, run_seconds=1) for api in apis]
        running = [pod | {"status": {"phase": "Running"}} for pod in pods]
        first.see(running[0], gone=False)
        second.see(running[0], gone=False)
        second.see(running[1], gone=False)
        await until(lambda: apis[1].phases.count("Succeeded") == 2)
        seen.append(list(apis[0].phases))
        first.see(running[1], gone=False)
        await until(lambda: apis[0].phases.count("Succeeded") == 2)

    asyncio.run(live())
    assert seen == [[]]


def test_a_pod_with_a_variable_that_nobody_can_fill_fails(images: Images, tmp_path: Path) -> None:
    container = a_container("main", "note", tmp_path / "notes")
    container["env"].append({"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})
    api = Api()
    live(a_pod(container), api, images, tmp_path, lambda: api.phases)

    assert api.phases == ["Failed"]


def test_a_pod_of_which_one_container_has_ended_runs_but_is_not_ready() -> None:
    pod = a_pod({"name": "a"}, {"name": "b"})

    one = partly_ended(pod, "now", {"a": 1})["status"]
    both = partly_ended(pod, "now", {"a": 1, "b": 0})["status"]

    assert (one["phase"], both["phase"]) == ("Running", "Failed")
    assert [list(each["state"]) for each in one["containerStatuses"]] == [["terminated"], ["running"]]
    assert {each["status"] for each in one["conditions"] if each["type"] == "Ready"} == {"False"}


def test_a_delete_is_answered_even_if_the_pod_leaves_the_watch_before() -> None:
    pod = a_pod({"name": "main"})
    pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": {}}
    pod["status"] = {"phase": "Failed"}
    api = Api(seconds=0.05)

    async def live() -> None:
        kubelet = Kubelet(api.client, speed=1_000, run_seconds=1)
        kubelet.see(pod, gone=False)
        await until(lambda: api.asked)
        kubelet.see(pod, gone=True)
        await until(lambda: api.deleted)

    asyncio.run(live())
