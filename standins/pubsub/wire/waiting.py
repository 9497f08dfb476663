"""Pulling with patience: hand out what there is, else wait for a while until there is something."""

import asyncio
from typing import Any

from standins.pubsub.bells import Bells
from standins.pubsub.wire.service import Service


async def pull_waiting(service: Service, bells: Bells, request: Any, patience_seconds: float) -> Any:
    """Answer a pull with at least one message, or with none after the patience (real seconds) ends.

    `return_immediately` does not wait. Raises BrokerError like the operation itself.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + patience_seconds
    while True:
        response = service.pull_now(request)
        left = until - loop.time()
        if response.received_messages or request.return_immediately or left <= 0:
            return response
        await bells.wait(request.subscription, left)
