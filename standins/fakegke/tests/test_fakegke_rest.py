"""What only REST shows: paths, JSON, error bodies, v1beta1, cut connections."""

from typing import Any

import httpx
import pytest

from standins.fakegke.tests.fakegke_worlds import ZONE, ServedWorld
from standins.processes.urls import STAND_IN

BODY: dict[str, Any] = {
    "nodePool": {
        "name": "pool-1",
        "initialNodeCount": 4,
        "locations": [ZONE],
        "config": {"machineType": "ct6e-standard-4t", "labels": {"a": "b"}},
        "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
    }
}


def _url(served: ServedWorld, version: str = "v1") -> str:
    return f"{served.rest}/{version}/{served.parent}/nodePools"


def test_an_error_body_is_shaped_as_googles(served: ServedWorld) -> None:
    created = httpx.post(_url(served), json=BODY)
    assert created.status_code == 200
    answer = httpx.post(_url(served), json=BODY)
    assert answer.status_code == 400
    error = answer.json()["error"]
    text = f"Cluster is running incompatible operation {created.json()['name']}."
    assert (error["code"], error["status"], error["message"]) == (400, "FAILED_PRECONDITION", text)
    assert error["errors"] == [{"message": text, "domain": "global", "reason": "failedPrecondition"}]
    request_info, error_info = error["details"]
    assert request_info["@type"] == "type.googleapis.com/google.rpc.RequestInfo"
    assert request_info["requestId"].startswith("0x")
    assert error_info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert (error_info["reason"], error_info["domain"]) == (
        "CLUSTER_ALREADY_HAS_OPERATION",
        "container.googleapis.com",
    )


def test_enums_are_names_by_default_and_numbers_on_request(served: ServedWorld) -> None:
    assert httpx.post(_url(served), json=BODY).json()["operationType"] == "CREATE_NODE_POOL"
    shown = httpx.get(f"{_url(served)}/pool-1", params={"$alt": "json;enum-encoding=int"}).json()
    assert shown["status"] == 1
    assert httpx.get(f"{_url(served)}/pool-1").json()["status"] == "PROVISIONING"


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"nodePol": {}}, 'Unknown name "nodePol": Cannot find field.'),
        ({"nodePool": {"config": {"foo": 1}}}, "Unknown name \"foo\" at 'node_pool.config': Cannot find field."),
        ({"nodePool": {"initialNodeCount": "many"}}, "Invalid JSON payload received."),
    ],
)
def test_unknown_fields_and_wrong_types_are_refused(
    served: ServedWorld, change: dict[str, Any], fragment: str
) -> None:
    answer = httpx.post(_url(served), json=change)
    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert fragment in answer.json()["error"]["message"]


def test_v1beta1_accepts_keeps_and_shows_what_only_v1beta1_has(served: ServedWorld) -> None:
    body = {"nodePool": {**BODY["nodePool"], "config": {**BODY["nodePool"]["config"]}}}
    body["nodePool"]["config"]["hostMaintenancePolicy"] = {"maintenanceInterval": "PERIODIC"}
    assert httpx.post(_url(served, "v1"), json=body).status_code == 400
    assert httpx.post(_url(served, "v1beta1"), json=body).status_code == 200
    shown = httpx.get(f"{_url(served, 'v1beta1')}/pool-1").json()
    assert shown["config"]["hostMaintenancePolicy"] == {"maintenanceInterval": "PERIODIC"}
    assert "hostMaintenancePolicy" not in httpx.get(f"{_url(served)}/pool-1").json()["config"]


def test_a_dropped_reply_cuts_the_connection(served: ServedWorld) -> None:
    served.add_fault(switch="lose_reply", how="drop")
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(_url(served), json=BODY)
    assert httpx.get(f"{_url(served)}/pool-1").json()["status"] == "PROVISIONING"


def test_every_call_is_recorded_with_its_answer(served: ServedWorld) -> None:
    httpx.get(f"{_url(served)}/absent")
    httpx.post(_url(served), json=BODY)
    httpx.get(_url(served), headers={"User-Agent": STAND_IN})  # as GKE's own autoscaler looks
    calls = [call for call in served.admin("/admin/calls")["calls"] if call["cluster"] == served.cluster]
    assert [(call["method"], call["pool"], call["code"], call["skin"]) for call in calls] == [
        ("GetNodePool", "absent", "NOT_FOUND", "rest"),
        ("CreateNodePool", "pool-1", "OK", "rest"),
        ("ListNodePools", "", "OK", STAND_IN),
    ]
