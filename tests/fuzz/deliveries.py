"""What a border gives to the two functions, in place of Pub/Sub and the scheduler."""

from shared.answer import Answer
from shared.deliver import deliver, deliver_tick
from shared.engine.reconcile import Role
from shared.model.messages import Event
from tests.builders import CLUSTER, a_push
from tests.engine.world import World

ROLES = tuple(Role)


def push(world: World, role: Role, message: Event | bytes) -> Answer:
    """Deliver a message, or the body of a push, to one function."""
    body = message if isinstance(message, bytes) else a_push(message)
    return deliver(role, body, world.ports, world.memory)


def tick(world: World, role: Role) -> Answer:
    """Let one function look at the cluster, as each minute."""
    answer, _ = deliver_tick(role, CLUSTER, world.ports, world.memory)
    return answer
