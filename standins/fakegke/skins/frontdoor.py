"""The one door through which the network skins call the model.

Adds the time that a call takes, nothing else.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from standins.fakegke.model.proto_messages import raw_class
from standins.fakegke.skins.rest_routes import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from standins.fakegke.model.fake_gke import FakeGke
    from standins.fakegke.model.proto_messages import Message

REQUESTS: dict[str, Callable[[], Any]] = {method: raw_class(f"{method}Request") for method in METHODS}


class FrontDoor:
    """Answers calls after their virtual latency.

    `speed` 0 means that time stands still: answer at once.
    """

    def __init__(self, gke: FakeGke, speed: float) -> None:
        self._gke = gke
        self._speed = speed

    async def answer(self, method: str, request: Message, skin: str) -> Message:
        """Return the model's answer; raises GkeError and LostReply as the model does."""
        latency = self._gke.latency(method, request)
        if self._speed:
            await asyncio.sleep(latency / self._speed)
        return self._gke.call(method, request, skin)
