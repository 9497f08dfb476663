"""What the autoscaler does in one loop: a picture of the cluster in, actions out. No I/O, no clock.

The order is that of https://github.com/kubernetes/autoscaler (`core/static_autoscaler.go`): give up
what cannot be made, else grow for pods that wait, else remove nodes that are not needed (how: its
`FAQ.md`). A slice goes as a whole or not at all.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from standins.autoscaler.failures import Backoff, describe_error, describe_failure, describe_timeout
from standins.autoscaler.picture import Action, Event, GiveUp, Group, Instance, RemoveNodes, Resize, Seen
from standins.kit.fitting import Judge, Node, Placing, Pod, Row

PAUSED = "in backoff after failed scale-up"
FULL = "max node group size reached"


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """The settings of the autoscaler, in seconds: the defaults of GKE's, as far as known."""

    loop: float = 10.0
    backoff_first: float = 300.0
    backoff_longest: float = 1800.0
    backoff_reset: float = 10_800.0
    provision_max: float = 900.0
    unneeded: float = 600.0
    delay_after_add: float = 600.0
    utilization: float = 0.5
    """The share of a node's accelerators (else CPUs or memory) below which it may be removed."""
    scale_ups_max: int = 1  # how many groups grow in one loop; what GKE's own does is not known
    repeat: float = 300.0  # the same Event about the same object is written once in this time


class Growth(NamedTuple):
    """A group, its new size, and the pods that it grows for."""

    group: Group
    size: int
    pods: list[Pod]


class Autoscaler:
    """Looks at the cluster again and again; what it remembers is lost with it, as in GKE's."""

    def __init__(self, times: Times | None = None) -> None:
        self.times = times or Times()
        times = self.times
        self._backoff = Backoff(times.backoff_first, times.backoff_longest, times.backoff_reset)
        self._scale_down = ScaleDown(times.unneeded, times.utilization)
        self._requests: dict[str, tuple[Pod, ...]] = {}
        """For which pods a group was told to grow."""
        self._missing: dict[str, float] = {}
        """Since when an instance is no node."""
        self._grown_at = float("-inf")
        self._told: dict[tuple[str, str, str], float] = {}

    def look(self, now: float, seen: Seen) -> list[Action]:
        """Return what to do now; `now` is in seconds and never goes back."""
        self._note_progress(now, seen)
        self._told = {key: at for key, at in self._told.items() if now - at < self.times.repeat}
        actions = list(self._give_up(now, seen))
        if not actions:
            actions = list(self._scale_up(now, seen))
        if not any(isinstance(each, Resize | GiveUp) for each in actions):
            may_remove = now - self._grown_at >= self.times.delay_after_add
            actions += self._scale_down.look(now, seen, may_remove=may_remove)
        return [each for each in actions if not isinstance(each, Event) or self._is_news(each, now)]

    def find_next(self, now: float) -> float:
        """Return when the time alone may change what there is to do; infinity for never."""
        ends = [self._grown_at + self.times.delay_after_add, *self._backoff.list_ends()]
        ends += [since + self.times.provision_max for since in self._missing.values()]
        return min((each for each in ends + self._scale_down.list_ends() if each > now), default=float("inf"))

    def _note_progress(self, now: float, seen: Seen) -> None:
        """Note what is missing, and forget the requests of which nothing is."""
        nodes = {each.name: each.ready for each in seen.nodes}
        missing = (each.name for group in seen.groups for each in group.instances if each.name not in nodes)
        self._missing = {name: self._missing.get(name, now) for name in missing}
        groups = {each.id: each for each in seen.groups}
        for name in list(self._requests):
            self._settle(name, groups.get(name), nodes)

    def _settle(self, name: str, group: Group | None, ready: Mapping[str, bool]) -> None:
        """Forget a request that is fulfilled or whose group is gone, and earlier failures of it."""
        if group is not None and sum(ready.get(each.name, False) for each in group.instances) < group.target:
            return
        del self._requests[name]
        if group is None or group.target:
            self._backoff.forget(name)

    def _give_up(self, now: float, seen: Seen) -> Iterator[Action]:
        """Yield what ends each growth that failed, or that took too long."""
        waiting = [pod for pod in seen.pods if pod.unschedulable]
        for group in seen.groups:
            words, failed = self._find_failure(group, now)
            if not failed:
                continue
            yield GiveUp(group, tuple(each.name for each in (group.instances if group.all_or_none else failed)))
            self._backoff.fail(group.id, now)
            for pod in self._list_disappointed(group, waiting):
                yield Event(pod, "FailedScaleUp", describe_failure(group.zone, words), "Warning")

    def _list_disappointed(self, group: Group, waiting: list[Pod]) -> list[Pod]:
        """Return the pods that wait for a growth that failed, and forget the request for it."""
        request = self._requests.pop(group.id, None)
        if request is None:  # Nobody remembers the growth: they are those that could run there.
            return [pod for pod in waiting if pod.matches_node(group.template.labels)]
        asked = {pod.uid for pod in request}
        return [pod for pod in waiting if pod.uid in asked]

    def _find_failure(self, group: Group, now: float) -> tuple[str, list[Instance]]:
        """Return why instances of a group do not come, and which; none while all may come."""
        failed = [each for each in group.instances if each.creating and each.error is not None]
        if failed:
            return ", ".join(dict.fromkeys(describe_error(each.error) for each in failed if each.error)), failed
        late = [
            each
            for each in group.instances
            if now - self._missing.get(each.name, now) >= self.times.provision_max and not group.queued
        ]
        return describe_timeout(group.id.rpartition("/")[2]), late

    def _scale_up(self, now: float, seen: Seen) -> Iterator[Action]:
        """Yield what serves the pods that wait and that no node will take, those that come too."""
        waiting = [pod for pod in seen.pods if pod.unschedulable]
        if not waiting:
            return
        placing = _imagine_coming(seen)
        waiting = [pod for pod in waiting if placing.place(pod) is None]
        growths = list(self._find_growths(placing, seen, waiting, now))
        for group, size, pods in growths:
            self._requests[group.id] = tuple(pods)
            self._grown_at = now
            yield Resize(group, size)
            change = f"[{{{group.id} {group.target}->{size} (max: {group.largest})}}]"
            for pod in pods:
                yield Event(pod, "TriggeredScaleUp", f"pod triggered scale-up: {change}")
        for pod in waiting if not growths else ():
            reasons = self._list_reasons(placing, seen, pod, now)
            yield Event(pod, "NotTriggerScaleUp", f"pod didn't trigger scale-up: {reasons}")

    def _find_growths(self, placing: Placing, seen: Seen, waiting: list[Pod], now: float) -> Iterator[Growth]:
        """Yield the growth that serves most pods, then that for most of the others, and so on."""
        groups = list(seen.groups)
        for _ in range(self.times.scale_ups_max):
            best = self._choose(placing, groups, waiting, now)
            if best is None:
                return
            yield best
            groups.remove(best.group)
            served = {pod.uid for pod in best.pods}
            waiting = [pod for pod in waiting if pod.uid not in served]

    def _choose(self, placing: Placing, groups: list[Group], waiting: list[Pod], now: float) -> Growth | None:
        """Return the growth that serves most pods, None where none serves any."""
        best: Growth | None = None
        for group in groups:
            if self._find_obstacle(group, now):
                continue
            size, pods = _try(placing, group, waiting)
            if len(pods) > (len(best.pods) if best else 0):
                best = Growth(group, size, pods)
        return best

    def _find_obstacle(self, group: Group, now: float) -> str:
        """Return why a group cannot grow now, empty when it can."""
        if self._backoff.is_paused(group.id, now):
            return PAUSED
        return FULL if group.target >= group.largest or (group.all_or_none and group.target) else ""

    def _list_reasons(self, placing: Placing, seen: Seen, pod: Pod, now: float) -> str:
        found: Counter[str] = Counter()
        for group in seen.groups:
            row = placing.add(group.template, f"imagined-{group.id}")
            rejection = Judge(pod, placing.rows.values()).find_rejection(row)
            found[rejection.reasons[0] if rejection else self._find_obstacle(group, now)] += 1
            del placing.rows[f"imagined-{group.id}"]
        return ", ".join(f"{count} {reason}" for reason, count in sorted(found.items()) if reason)

    def _is_news(self, event: Event, now: float) -> bool:
        key = (event.pod.uid, event.reason, event.message)
        return self._told.setdefault(key, now) == now


def _imagine_coming(seen: Seen) -> Placing:
    """Return the nodes that are Ready with their pods, and those that the groups wait for."""
    placing = Placing((each for each in seen.nodes if each.ready), seen.pods)
    nodes = {each.name for each in seen.nodes}
    for group in seen.groups:
        missing = group.target - sum(each.name in nodes for each in group.instances)
        for index in range(missing):
            placing.add(group.template, f"coming-{index}-{group.id}")
    return placing


def _try(placing: Placing, group: Group, waiting: list[Pod]) -> tuple[int, list[Pod]]:
    """Return the size that a group needs for the pods that fit on its new nodes, and these pods.

    Nothing is placed afterwards.
    """
    room = group.largest - group.target
    names: list[str] = []
    served: list[Pod] = []
    for pod in waiting:
        if placing.place(pod, [placing.rows[name] for name in names]) is None:
            if len(names) == room:
                continue
            name = f"new-{len(names)}-{group.id}"
            if placing.place(pod, [placing.add(group.template, name)]) is None:
                del placing.rows[name]
                continue
            names.append(name)
        served.append(pod)
    for name in names:
        del placing.rows[name]
    return group.largest if group.all_or_none else group.target + len(names), served


ACCELERATORS = ("google.com/tpu", "nvidia.com/gpu")
_MOST_WITH_PODS = 1  # how many nodes (or slices) with pods to evict go in one loop


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
        if group.target <= group.smallest:
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
