"""What a border gives to the two functions, in place of Pub/Sub and the scheduler."""

from typing import Any

from msgspec import structs

from shared.deliver import Answer, deliver, deliver_tick
from shared.engine.reconcile import Role
from shared.model.messages import Event
from tests.builders import CLUSTER, a_push
from tests.engine.world import World

ROLES = tuple(Role)


def use_ports(world: World, **ports: Any) -> None:
    """Give both functions other ports."""
    for function in (world.provisioner, world.collector):
        function.ports = structs.replace(function.ports, **ports)


def push(world: World, role: Role, message: Event | bytes) -> Answer:
    """Deliver a message, or the body of a push, to one function."""
    body = message if isinstance(message, bytes) else a_push(message)
    function = world.provisioner if role == Role.PROVISION else world.collector
    return deliver(role, body, function.ports)


def tick(world: World, role: Role) -> Answer:
    """Let one function look at the cluster, as each minute."""
    function = world.provisioner if role == Role.PROVISION else world.collector
    answer, _ = deliver_tick(role, CLUSTER, function.ports)
    return answer
