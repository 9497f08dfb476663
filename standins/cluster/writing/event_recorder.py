"""Events: what a controller reports about an object. A repeated Event raises a counter.

No logic depends on them: the oldest ones are removed when there are too many.
"""

from collections import OrderedDict
from typing import Any

from standins.cluster.store.errors import ApiError
from standins.cluster.store.kinds import EVENT
from standins.cluster.store.stored import Stored
from standins.cluster.writing.registry import Registry

Json = dict[str, Any]
_MAX_EVENTS = 5_000
_MAX_MESSAGE = 1_024


class Recorder:
    """Writes Event objects in the name of several components."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: OrderedDict[tuple[str, ...], tuple[str, str]] = OrderedDict()

    def record(self, component: str, about: Stored, reason: str, message: str, *, warning: bool = False) -> None:
        """Write an Event about an object, or count the same one again."""
        message = message[:_MAX_MESSAGE]
        key = (component, about.uid, reason, message)
        known = self._known.get(key)
        if known is not None and self._count_again(known):
            return
        namespace = about.namespace or "default"
        body = self._new_event(component, about, reason, message, "Warning" if warning else "Normal")
        try:
            created = self._registry.create(EVENT, body, namespace)
        except ApiError:
            # The namespace is being deleted: the real recorders lose such Events too.
            return
        self._known[key] = created.key
        if len(self._known) > _MAX_EVENTS:
            _, oldest = self._known.popitem(last=False)
            stored = self._registry.store.get(EVENT, *oldest)
            if stored is not None:
                self._registry.store.remove(stored)

    def _count_again(self, key: tuple[str, str]) -> bool:
        stored = self._registry.store.get(EVENT, *key)
        if stored is None:
            return False
        body = stored.body()
        body["count"] = body.get("count", 1) + 1
        body["lastTimestamp"] = self._registry.clock.timestamp()
        self._registry.write(EVENT, stored, body)
        return True

    def _new_event(self, component: str, about: Stored, reason: str, message: str, event_type: str) -> Json:
        now = self._registry.clock.timestamp()
        involved = {
            "kind": about.kind.kind,
            "apiVersion": about.kind.api_version,
            "name": about.name,
            "uid": about.uid,
            "resourceVersion": str(about.version),
        }
        if about.namespace:
            involved["namespace"] = about.namespace
        return {
            "metadata": {"name": f"{about.name}.{self._registry.random.getrandbits(64):016x}"},
            "involvedObject": involved,
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": event_type,
        }
