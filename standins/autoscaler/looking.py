"""One loop of the process: read the picture, let the model decide, act."""

import time

import httpx

from standins.autoscaler.model import Autoscaler
from standins.autoscaler.node_groups import NodeGroups
from standins.autoscaler.picture import Action, Event, GiveUp, RemoveNodes, Resize, Seen
from standins.autoscaler.pods_and_nodes import PodsAndNodes
from standins.processes.journal import write_record


class Looking:
    """Looks and acts. `speed` is virtual seconds for each real one."""

    def __init__(self, autoscaler: Autoscaler, groups: NodeGroups, cluster: PodsAndNodes, speed: float) -> None:
        self._autoscaler, self._groups, self._cluster = autoscaler, groups, cluster
        self._speed = speed
        self._begun = time.monotonic()

    def look(self) -> None:
        """Do one loop; an API that does not answer, or refuses, ends the loop and is logged."""
        try:
            groups = self._groups.read()
            # Without autoscaled pools there is nothing to do: a large cluster is not read in vain.
            pods, nodes = (self._cluster.read_pods(), self._cluster.read_nodes()) if groups else ((), ())
            now = (time.monotonic() - self._begun) * self._speed
            for action in self._autoscaler.look(now, Seen(pods, nodes, groups)):
                self._act(action)
        except httpx.HTTPStatusError as error:
            write_record("refused", "WARNING", answer=error.response.text[:500], url=str(error.request.url))
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            write_record("cannot look", "WARNING", error=repr(error))

    def _act(self, action: Action) -> None:
        if isinstance(action, Resize):
            self._groups.resize(action.group, action.size)
            write_record("resized", pool=action.group.pool, before=action.group.target, size=action.size)
        elif isinstance(action, GiveUp):
            self._groups.delete(action.group, action.instances)
            write_record("gave up", pool=action.group.pool, instances=len(action.instances))
        elif isinstance(action, RemoveNodes):
            for node in action.nodes:
                self._cluster.begin_removal(node)
            for pod in action.pods:
                self._cluster.evict(pod)
            self._groups.delete(action.group, action.nodes)
            write_record("removed nodes", pool=action.group.pool, nodes=list(action.nodes))
        elif isinstance(action, Event):
            self._cluster.write(action)
