"""Which nodes are not needed, since when, and which of them go.

https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md (how scale-down
works). A slice goes as a whole or not at all.
"""

from collections.abc import Iterable, Iterator

from standins.autoscaler.picture import Action, Event, Group, RemoveNodes, Seen
from standins.kit.fitting import Node, Placing, Pod, Row

ACCELERATORS = ("google.com/tpu", "nvidia.com/gpu")
_MOST_WITH_PODS = 1
"""How many nodes (or slices) with pods to evict go in one loop."""


class ScaleDown:
    """Remembers since when each node is not needed."""

    def __init__(self, unneeded_seconds: float, utilization: float) -> None:
        self._unneeded_seconds = unneeded_seconds
        self._utilization = utilization
        self._since: dict[str, float] = {}

    def list_ends(self) -> list[float]:
        """Return when each node that is not needed was so for long enough."""
        return [since + self._unneeded_seconds for since in self._since.values()]

    def look(self, now: float, seen: Seen, *, may_remove: bool) -> Iterator[Action]:
        """Yield what removes the nodes that were not needed for long enough."""
        placing = Placing((each for each in seen.nodes if each.ready), seen.pods)
        unneeded: dict[str, float] = {}
        due: list[tuple[Group, list[str], list[Pod]]] = []
        for group in seen.groups:
            for names, pods in self._find_unneeded(group, placing):
                unneeded.update({name: self._since.get(name, now) for name in names})
                if all(now - unneeded[name] >= self._unneeded_seconds for name in names):
                    due.append((group, names, pods))
        self._since = unneeded
        if may_remove:
            yield from _remove(due)

    def _find_unneeded(self, group: Group, placing: Placing) -> Iterator[tuple[list[str], list[Pod]]]:
        """Yield the nodes that can go together, with the pods that must move."""
        mine = [each.name for each in group.instances if each.name in placing.rows]
        if not mine or group.target <= group.smallest:
            return
        if group.all_or_none:
            if len(mine) == group.target and (pods := self._clear(mine, placing)) is not None:
                yield mine, pods
            return
        left = group.target
        for name in sorted(mine, key=lambda name: len(_movable(placing.rows[name].pods.values()))):
            if left > group.smallest and (pods := self._clear([name], placing)) is not None:
                left -= 1
                yield [name], pods

    def _clear(self, names: list[str], placing: Placing) -> list[Pod] | None:
        """Move the pods of nodes elsewhere and return them; None, and nothing moved, if one cannot.

        The nodes are no place for other pods afterwards.
        """
        rows = {name: placing.rows[name] for name in names}
        if not all(self._is_idle(row.node, row) for row in rows.values()):
            return None
        for name in names:
            del placing.rows[name]
        pods = [pod for row in rows.values() for pod in _movable(row.pods.values())]
        placed: list[tuple[Row, Pod]] = []
        for pod in pods:
            row = placing.place(pod)
            if row is None:
                for where, moved in placed:
                    where.discard(moved)
                placing.rows.update(rows)
                return None
            placed.append((row, pod))
        return pods

    def _is_idle(self, node: Node, row: Row) -> bool:
        if node.kept or not all(pod.movable or pod.daemon for pod in row.pods.values()):
            return False
        offers = [name for name in ACCELERATORS if node.allocatable.get(name)] or ["cpu", "memory"]
        shares = [row.used[name] / node.allocatable[name] for name in offers if node.allocatable.get(name)]
        return max(shares, default=0.0) < self._utilization


def _movable(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if not pod.daemon]


def _remove(due: list[tuple[Group, list[str], list[Pod]]]) -> Iterator[Action]:
    with_pods = 0
    for group, names, pods in due:
        if pods and with_pods >= _MOST_WITH_PODS:
            continue
        with_pods += bool(pods)
        yield RemoveNodes(group, tuple(names), tuple(pods))
        for pod in pods:
            yield Event(pod, "ScaleDown", "deleting pod for node scale down")
        for name in names:
            yield Event(None, "ScaleDown", "node removed by cluster autoscaler", node=name)
