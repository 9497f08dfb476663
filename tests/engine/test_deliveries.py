"""What a push to a function is answered, and which workload it is about."""

import base64
import json

from shared.deliver import deliver, deliver_tick
from shared.engine.outside import Role
from shared.model.messages import Event, EventType, format_message
from shared.model.names import ObjectName
from tests.builders import CLUSTER, JOBSET_UID
from tests.engine.world import World


def push(event_type: EventType = EventType.DEMAND, cluster: str = CLUSTER) -> bytes:
    subject = ObjectName(kind="JobSet", namespace="default", name="train", uid=JOBSET_UID)
    message = format_message(Event(type=event_type, cluster=cluster, subject=subject))
    data = base64.b64encode(message.data).decode()
    return json.dumps({"message": {"data": data, "attributes": message.attributes, "messageId": "7"}}).encode()


def test_a_demand_creates_and_is_acknowledged() -> None:
    world = World()
    world.wait(0)

    answer = deliver(Role.PROVISION, push(), world.ports)

    assert answer.status == 200
    assert len(world.gke.pools) == 1


def test_a_message_that_can_never_succeed_is_acknowledged() -> None:
    world = World()

    assert deliver(Role.PROVISION, b"nonsense", world.ports).status == 200
    other = push(cluster="projects/p/locations/us-east5/clusters/other")
    assert deliver(Role.PROVISION, other, world.ports).status == 200
    assert not world.gke.calls


def test_a_key_under_way_is_looked_at_once_more() -> None:
    world = World()
    world.wait(0)
    assert world.ports.crew.begin(world.key)

    assert deliver(Role.PROVISION, push(), world.ports).status == 200

    assert not world.gke.pools
    assert world.ports.crew.goes_on(world.key)


def test_a_full_instance_asks_for_the_message_again() -> None:
    world = World()
    for _ in range(16):
        assert world.ports.crew.enter(CLUSTER, clusters=1)

    assert deliver(Role.PROVISION, push(), world.ports).status == 503


def test_each_function_leaves_the_messages_of_the_other() -> None:
    world = World()
    world.wait(0)

    assert deliver(Role.COLLECT, push(), world.ports).status == 200
    assert deliver(Role.PROVISION, push(EventType.WORKLOAD_OVER), world.ports).status == 200
    assert not world.gke.calls


def test_a_tick_counts_what_it_did() -> None:
    world = World()
    world.wait(0)

    answer, counts = deliver_tick(Role.PROVISION, CLUSTER, world.ports)

    assert (answer.status, counts["create"], counts["errors"]) == (200, 1, 0)
