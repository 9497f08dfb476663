"""The edge to Kueue over HTTP: what it asks for, what it makes of the answers, and of refusals.

`tests/kinds/test_kinds_kueue_check_real.py` asks Kueue itself.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from shared.core.errors import Denied, KindAbsent, StaleView
from shared.core.kueue import CONTROLLER
from shared.edges.kubernetes_api import Connection, KubernetesApi
from shared.edges.kueue_objects import KueueQueues
from tests.unit.test_kueue import CHECKS, OWNER, a_workload

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS, CHECK_LIST = f"{KUEUE}/workloads", f"{KUEUE}/admissionchecks"
MINE = f"{KUEUE}/namespaces/default/workloads"
JOBSET = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/train"
SHAPE = {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"}


def a_jobset_body(uid: str = "uid-of-train") -> Json:
    job = {"name": "workers", "template": {"spec": {"template": {"spec": {"containers": []}}}}}
    meta = {"namespace": "default", "name": "train", "uid": uid}
    return {"metadata": meta, "spec": {"suspend": True, "replicatedJobs": [job]}}


class Api(ThreadingHTTPServer):
    """Answers from a table by path; keeps what was patched."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.objects: dict[str, Json | int] = {
            CHECK_LIST: {
                "items": [
                    {"metadata": {"name": "capacity", "generation": 1}, "spec": {"controllerName": CONTROLLER}},
                    {"metadata": {"name": "other"}, "spec": {"controllerName": "example.com/other"}},
                ]
            },
            WORKLOADS: {"items": [a_workload()]},
            MINE: {"items": [a_workload()]},
            JOBSET: a_jobset_body(),
            f"{KUEUE}/resourceflavors/v6e": {"metadata": {"name": "v6e"}, "spec": {"nodeLabels": SHAPE}},
            f"{KUEUE}/resourceflavors/big": {"metadata": {"name": "big"}, "spec": {}},
        }
        self.asked: list[tuple[str, Json]] = []
        self.patched: list[tuple[str, str, Json, Json]] = []


class _Answers(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        found = urlsplit(self.path)
        self.server.asked.append((found.path, parse_qs(found.query)))
        self._answer(self.server.objects.get(found.path, 404))

    def do_PATCH(self) -> None:
        found = urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.patched.append((found.path, self.headers["Content-Type"], parse_qs(found.query), body))
        self._answer(self.server.objects.get(found.path, {"metadata": {}}))

    def _answer(self, found: Json | int) -> None:
        status = found if isinstance(found, int) else 200
        said = {"kind": "Status", "code": found, "reason": {409: "Conflict"}.get(status, ""), "message": "no"}
        data = json.dumps(said if isinstance(found, int) else found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def queues(api: Api) -> KueueQueues:
    return KueueQueues(KubernetesApi(Connection(url=f"http://127.0.0.1:{api.server_port}")))


def test_only_our_checks_are_listed_and_marked(api: Api, queues: KueueQueues) -> None:
    (check,) = queues.list_checks()
    queues.mark_active(check)

    ((path, content, query, body),) = api.patched
    assert path == f"{CHECK_LIST}/capacity/status"
    assert (content, query) == ("application/apply-patch+yaml", {"fieldManager": [CONTROLLER], "force": ["true"]})
    assert body["status"]["conditions"][0]["status"] == "True"


def test_an_owner_is_seen_as_kueue_will_resume_it(queues: KueueQueues) -> None:
    (queued,) = queues.list_workloads()

    owner = queues.view_owner(queued)

    assert owner is not None
    assert (owner.suspended, owner.quota_reserved) == (True, True)
    assert owner.groups[0].template.node_selector == SHAPE
    assert queues.view_admitted(owner) == owner


def test_the_workload_of_an_owner_is_found_by_its_uid(api: Api, queues: KueueQueues) -> None:
    (queued,) = queues.list_workloads()
    owner = queues.view_owner(queued)
    assert owner is not None
    api.asked.clear()
    api.objects[MINE] = {"items": [a_workload(conditions={})]}

    assert queues.view_admitted(owner) is None

    assert api.asked == [(MINE, {"labelSelector": ["kueue.x-k8s.io/job-uid=uid-of-train"], "limit": ["500"]})]


@pytest.mark.parametrize(
    "owner", [OWNER | {"kind": "MPIJob"}, OWNER | {"uid": "another"}, OWNER | {"name": "gone"}]
)
def test_an_owner_that_is_gone_replaced_or_of_another_kind_is_none(
    api: Api, queues: KueueQueues, owner: Json
) -> None:
    api.objects[WORKLOADS] = {"items": [a_workload(ownerReferences=[owner])]}
    (queued,) = queues.list_workloads()

    assert queues.view_owner(queued) is None


def test_one_workload_that_cannot_be_read_does_not_hide_the_others(api: Api, queues: KueueQueues) -> None:
    api.objects[WORKLOADS] = {"items": [{"metadata": {"name": "x"}, "spec": {"podSets": 3}}, a_workload()]}

    assert [each.name for each in queues.list_workloads()] == ["jobset-train-1234"]


def test_a_flavor_that_is_gone_is_read_again_later(api: Api, queues: KueueQueues) -> None:
    (queued,) = queues.list_workloads()
    del api.objects[f"{KUEUE}/resourceflavors/v6e"]

    with pytest.raises(StaleView, match="ResourceFlavor v6e"):
        queues.view_owner(queued)


@pytest.mark.parametrize(("status", "error"), [(409, StaleView), (404, StaleView), (403, Denied)])
def test_a_check_that_cannot_be_written_is_an_error(
    api: Api, queues: KueueQueues, status: int, error: type[Exception]
) -> None:
    (queued,) = queues.list_workloads()
    api.objects[f"{MINE}/jobset-train-1234/status"] = status

    with pytest.raises(error):
        queues.write_state(queued, queued.checks[1])

    assert api.patched[0][3]["status"]["admissionChecks"] == [CHECKS[1]]


def test_a_cluster_without_kueue_is_named_with_the_setting(api: Api, queues: KueueQueues) -> None:
    api.objects[CHECK_LIST] = 404

    with pytest.raises(KindAbsent, match="kueue_admission_check"):
        queues.list_checks()
