"""The audit log of operations reaches Pub/Sub: first and last entries in GKE's shape.

Faults make them late, lost or doubled.
"""

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from standins.fakegke.log_sink import LogSink
from standins.fakegke.server import RunningFake, Settings
from standins.fakegke.tests.fakegke_worlds import LONG, PROJECT, InProcessWorld
from standins.processes.local_answers import Answer, Asked, LocalAnswers
from standins.processes.stand_ins import wait_until

TOPIC = "projects/demo/topics/ends"
OF_CALLERS = {"authenticationInfo", "authorizationInfo", "requestMetadata", "request", "response"}


def publish(
    world: InProcessWorld, act: Callable[[], object], count: int, *, refusals: int = 0
) -> list[dict[str, Any]]:
    """Return the entries that came to the topic by `act`, in order.

    Pub/Sub answers 503 to the first `refusals`.
    """
    found: list[dict[str, Any]] = []
    left = [503] * refusals

    def take(asked: Asked) -> Answer:
        if left or asked.path != f"/v1/{TOPIC}:publish":
            return Answer(left.pop() if left else 404)
        found.extend(json.loads(asked.body)["messages"])
        return Answer(200, b"{}")

    async def run(url: str) -> None:
        sink = LogSink(world.gke, url, TOPIC)
        world.gke.listen(sink.note)
        running = asyncio.create_task(sink.run())
        act()
        await asyncio.to_thread(wait_until, lambda: len(found) >= count)
        await asyncio.sleep(0.1)  # one too many would come now
        running.cancel()

    with LocalAnswers(take) as server:
        asyncio.run(run(server.url))
    assert len(found) == count
    return list(map(read, found))


def read(message: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(base64.b64decode(message["data"]))
    assert message["attributes"] == {"logging.googleapis.com/timestamp": entry["timestamp"]}
    return entry


def test_an_operation_has_a_first_and_a_last_entry_and_only_the_first_has_the_request(
    model: InProcessWorld,
) -> None:
    operations: list[Any] = []
    first, last = publish(model, lambda: operations.append(model.created()), 2)

    common = {"id": operations[0].name, "producer": "container.googleapis.com"}
    assert first["operation"] == common | {"first": True}
    assert last["operation"] == common | {"last": True}
    for entry in (first, last):
        assert entry["resource"] == {
            "type": "gke_nodepool",
            "labels": {
                "project_id": PROJECT,
                "location": "us-east5",
                "cluster_name": "alpha",
                "nodepool_name": "pool-1",
            },
        }
        assert entry["severity"] == "NOTICE"
        assert entry["protoPayload"]["methodName"] == "google.container.v1.ClusterManager.CreateNodePool"
        assert entry["protoPayload"]["resourceName"] == f"{model.parent}/nodePools/pool-1"
    assert first["insertId"] != last["insertId"]
    assert first["timestamp"] < last["timestamp"]
    assert first["protoPayload"].keys() >= OF_CALLERS
    assert not last["protoPayload"].keys() & OF_CALLERS
    assert last["protoPayload"]["status"] == {}
    assert last["protoPayload"]["metadata"]["operationType"] == "CREATE_NODE_POOL"


def test_a_failure_has_its_code_and_text_and_a_delete_its_method(model: InProcessWorld) -> None:
    model.add_fault(switch="outcome", kind="stockout")

    def act() -> None:
        model.created()
        model.delete()
        model.advance(LONG)

    _, failed, _, deleted = publish(model, act, 4)

    assert (failed["severity"], failed["protoPayload"]["status"]["code"]) == ("ERROR", 8)
    assert "does not have enough resources" in failed["protoPayload"]["status"]["message"]
    assert deleted["protoPayload"]["methodName"] == "google.container.v1.ClusterManager.DeleteNodePool"
    assert deleted["protoPayload"]["status"] == {}


def test_what_gke_does_by_itself_has_another_method_and_a_refused_call_no_entry(model: InProcessWorld) -> None:
    model.add_fault(switch="external_actor", seconds=LONG)
    model.created()

    def act() -> None:
        model.refusal(lambda: model.delete("pool-2"))
        model.advance(LONG)

    assert {each["protoPayload"]["methodName"] for each in publish(model, act, 2)} == {
        "google.container.internal.ClusterManagerInternal.UpdateClusterInternal"
    }


@pytest.mark.parametrize(("copies", "count"), [(0, 1), (1, 2), (3, 4)])
def test_entries_are_lost_or_doubled_by_a_fault(model: InProcessWorld, copies: int, count: int) -> None:
    def act() -> None:
        model.create()
        model.add_fault(switch="audit_entries", copies=copies, count=1)
        model.advance(LONG)

    lasts = [each["operation"].get("last", False) for each in publish(model, act, count)]
    assert lasts == [False] + [True] * copies


def test_an_entry_is_as_late_as_a_fault_says(model: InProcessWorld) -> None:
    model.add_fault(switch="audit_entries", delay=10_000, count=1)

    def act() -> None:
        model.created()
        model.advance(11_000)

    last, first = publish(model, act, 2)

    assert (first["operation"]["first"], last["operation"]["last"]) == (True, True)


def test_an_entry_waits_for_a_pubsub_that_does_not_take_it(model: InProcessWorld) -> None:
    def act() -> None:
        model.create()
        model.advance(60)

    assert len(publish(model, act, 1, refusals=2)) == 1


def test_a_topic_needs_a_pubsub_and_a_pubsub_a_topic() -> None:
    with pytest.raises(ValueError, match="one is not valid without the other"):
        RunningFake(Settings(PROJECT, "us-east5", [], operations_topic=TOPIC))
