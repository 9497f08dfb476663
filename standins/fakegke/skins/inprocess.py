"""The in-process skin: the verbs of the official client as plain methods, without a network.

Arguments and answers are those of `google.cloud.container_v1.ClusterManagerClient`; refusals are
`GkeError`, a lost reply is `LostReply`. For tests that want speed and a clock of their own.
"""

from collections.abc import Callable
from typing import Any

from google.cloud.container_v1.types import cluster_service as types

from standins.fakegke.model.fake_gke import FakeGke


class InProcessGke:
    """The client's verbs on a model, such as `create_node_pool`.

    Each takes a `request` (message or mapping) or the fields by keyword.
    """

    def __init__(self, gke: FakeGke) -> None:
        self.gke = gke

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        method = verb.title().replace("_", "")
        wrapper: Any = getattr(types, f"{method}Request", None)
        if wrapper is None:
            raise AttributeError(f"{verb!r} is no verb of the client")

        def call(request: Any = None, **fields: Any) -> Any:
            message = wrapper(request) if request is not None else wrapper(**fields)
            answer = self.gke.call(method, wrapper.pb(message))
            return getattr(types, answer.DESCRIPTOR.name).wrap(answer)

        return call
