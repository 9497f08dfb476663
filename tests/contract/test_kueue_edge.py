"""The edge to Kueue over HTTP: what it asks for, what it makes of the answers, and of refusals.

`tests/loop/lives/queues.yaml` asks Kueue itself.
"""

import json
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from msgspec import structs

from shared.edges.kueue import CONTROLLER, KueueQueues
from shared.model.decisions import Reason
from shared.model.errors import Denied, KindAbsent, StaleView
from tests.builders import JOBSET_UID
from tests.canned import Canned, CannedHttp, open_api
from tests.demands import refuses
from tests.rules.test_kueue import CHECKS, OWNER, a_workload

Json = dict[str, Any]
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS, CHECK_LIST = f"{KUEUE}/workloads", f"{KUEUE}/admissionchecks"
MINE = f"{KUEUE}/namespaces/default/workloads"
JOBSET = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/train"
OURS, ACTIVE = {"controllerName": CONTROLLER}, {"type": "Active", "status": "True"}
SHAPE = {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"}


def a_jobset_body(uid: str = "uid-of-train") -> Json:
    job = {"name": "workers", "template": {"spec": {"template": {"spec": {"containers": []}}}}}
    meta = {"namespace": "default", "name": "train", "uid": uid}
    return {"metadata": meta, "spec": {"suspend": True, "replicatedJobs": [job]}}


class Api:
    """Answers from a table by path; keeps what was patched."""

    def __init__(self) -> None:
        self.http = CannedHttp(self._answer)
        self.objects: dict[str, Json | int] = {
            CHECK_LIST: {
                "items": [
                    {"metadata": {"name": "capacity", "generation": 3}, "spec": OURS},
                    {"metadata": {"name": "on"}, "spec": OURS, "status": {"conditions": [ACTIVE]}},
                    {"metadata": {"name": "other"}, "spec": {"controllerName": "example.com/other"}},
                ]
            },
            WORKLOADS: {"items": [a_workload()]},
            MINE: {"items": [a_workload()]},
            JOBSET: a_jobset_body(),
            f"{KUEUE}/resourceflavors/v6e": {"metadata": {"name": "v6e"}, "spec": {"nodeLabels": SHAPE}},
            f"{KUEUE}/resourceflavors/big": {"metadata": {"name": "big"}, "spec": {}},
        }

    def _answer(self, method: str, url: str) -> Canned:
        found = self.objects.get(urlsplit(url).path, {} if method == "PATCH" else 404)
        if not isinstance(found, int):
            return Canned(json.dumps(found).encode())
        fields = {"kind": "Status", "code": found, "reason": {409: "Conflict"}.get(found, ""), "message": "no"}
        return Canned(json.dumps(fields).encode(), found)

    @property
    def patched(self) -> list[tuple[str, str, Json, Json]]:
        """The path of each patch, its form, its parameters, and what it writes."""
        return [
            (parts.path, headers["Content-Type"], parse_qs(parts.query), json.loads(body))
            for method, url, headers, body in self.http.sent
            for parts in [urlsplit(url)]
            if method == "PATCH"
        ]


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def queues(api: Api) -> KueueQueues:
    return KueueQueues(open_api(api.http))


def test_only_our_checks_are_listed_and_marked(api: Api, queues: KueueQueues) -> None:
    check, on = queues.list_checks()
    assert [(check.name, check.active), (on.name, on.active)] == [("capacity", False), ("on", True)]
    queues.mark_active(check)

    ((path, content, query, body),) = api.patched
    assert path == f"{CHECK_LIST}/capacity/status"
    assert (content, query) == ("application/apply-patch+yaml", {"fieldManager": [CONTROLLER], "force": ["true"]})
    (condition,) = body["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["observedGeneration"]) == ("Active", "True", 3)


def test_an_owner_is_seen_as_kueue_will_resume_it(queues: KueueQueues) -> None:
    (queued,) = queues.list_workloads()

    owner = queues.view_owner(queued)

    assert owner is not None
    assert owner.suspended
    assert owner.groups[0].template.selection == {key: (value,) for key, value in SHAPE.items()}


def test_the_workload_of_an_owner_is_found_by_its_uid(api: Api, queues: KueueQueues) -> None:
    api.objects[MINE] = {"items": [a_workload(conditions={})]}

    assert [each.holds_quota for each in queues.list_owned("default", "uid-of-train")] == [False]

    ((_, url, _, _),) = api.http.sent
    assert unquote(url) == f"http://canned{MINE}?labelSelector=kueue.x-k8s.io/job-uid=uid-of-train&limit=500"


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
    api.objects[WORKLOADS] = {
        "items": [{"metadata": {"name": "x"}, "status": {"admissionChecks": 3}}, a_workload()]
    }

    assert [each.name for each in queues.list_workloads()] == ["jobset-train-1234"]


@pytest.mark.parametrize(("status", "error"), [(409, StaleView), (404, StaleView), (403, Denied)])
def test_a_check_that_cannot_be_written_is_an_error(
    api: Api, queues: KueueQueues, status: int, error: type[Exception]
) -> None:
    (queued,) = queues.list_workloads()
    api.objects[f"{MINE}/jobset-train-1234/status"] = status

    with pytest.raises(error):
        queues.write_state(queued, queued.checks[1])

    assert api.patched[0][3]["status"]["admissionChecks"] == [CHECKS[1]]


def test_each_check_of_a_workload_has_its_own_field_manager(api: Api, queues: KueueQueues) -> None:
    (queued,) = queues.list_workloads()

    long = [f"{'capacity-of-' * 20}{each}" for each in ("a", "b")]
    for state in (*queued.checks, *(structs.replace(queued.checks[0], name=name) for name in long)):
        queues.write_state(queued, state)

    managers = [query["fieldManager"][0] for _, _, query, _ in api.patched]
    assert managers[:2] == [f"{CONTROLLER} other", f"{CONTROLLER} capacity"]
    assert len(set(managers)) == 4
    assert max(map(len, managers)) <= 128, "the API refuses a longer one"


def test_a_cluster_without_kueue_has_no_quota_and_is_named_with_the_setting(api: Api, queues: KueueQueues) -> None:
    api.objects[CHECK_LIST] = api.objects[MINE] = 404

    with pytest.raises(KindAbsent, match="kueue_admission_check"):
        queues.list_checks()
    assert list(queues.list_owned("default", JOBSET_UID)) == []


def test_a_flavor_with_a_topology_is_not_ours(api: Api, queues: KueueQueues) -> None:
    """Kueue chooses among nodes that exist, so no node pool can be made for it."""
    (queued,) = queues.list_workloads()
    path = next(path for path in api.objects if "resourceflavors" in path)
    api.objects[path] = {"metadata": {"name": "f"}, "spec": {"topologyName": "racks"}}

    with refuses(Reason.DEMAND_LEFT_TO_GKE, match="topologyName"):
        queues.view_owner(queued)
