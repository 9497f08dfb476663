"""The scheduler: it binds pods to nodes, or writes why it cannot.

It keeps its own list of nodes and of the pods on them, which every change updates. It tries the
pending pods again after a change that could help one, and writes a condition only when it differs.
Source: https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/
"""

import dataclasses
import time
from collections import Counter
from collections.abc import Iterable

from standins.cluster.kinds import NODE, POD
from standins.cluster.objects import set_condition
from standins.cluster.runner import Controller, Key
from standins.cluster.store import Change, Stored
from standins.cluster.writing import Registry
from standins.kit.fitting import Judge, Placing, Pod, Rejection, Row, is_finished, read_node, read_pod

_NAME = "default-scheduler"
_ROUND: Key = ("round",)
_SLICE_REAL_SECONDS = 0.02


class Scheduler(Controller):
    """The default scheduler."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._placing = Placing()
        self._placed: dict[str, tuple[str, Pod]] = {}
        """By UID: the node of a pod, and the pod."""
        self._pending: dict[str, tuple[Stored, Pod]] = {}
        self._untried: dict[str, None] = {}

    def keys_for(self, change: Change) -> Iterable[Key]:
        """Bring the picture up to date; ask for a round when a pod may be placed now."""
        if change.kind is NODE:
            self._see_node(change)
        elif change.kind is POD:
            self._see_pod(change)
        return (_ROUND,) if self._untried else ()

    def _retry_all(self) -> None:
        self._untried.update(dict.fromkeys(self._pending))

    def _see_node(self, change: Change) -> None:
        rows, name = self._placing.rows, change.subject.name
        if change.new is None:
            for uid in rows.pop(name).pods:
                del self._placed[uid]
            self._retry_all()
            return
        node = read_node(change.new.json)
        if name not in rows:
            self._placing.add(node, name)
            for stored in self.registry.store.objects(POD):
                if stored.fields["spec.nodeName"] == name and not is_finished(stored.json):
                    self._place(stored)
        elif dataclasses.replace(rows[name].node, ready=node.ready) == node:
            return
        rows[name].change(node)
        self._retry_all()

    def _see_pod(self, change: Change) -> None:
        uid, stored = change.subject.uid, change.new
        if stored is None or is_finished(stored.json):
            self._forget(uid)
            return
        body = stored.json
        if not stored.fields["spec.nodeName"] and _is_schedulable(stored):
            before = self._pending.get(uid)
            self._pending[uid] = stored, read_pod(body)
            if before is None or (before[0].json["spec"], before[0].labels) != (body["spec"], stored.labels):
                self._untried[uid] = None
            return
        self._pending.pop(uid, None)
        self._untried.pop(uid, None)
        if stored.fields["spec.nodeName"]:
            self._place(stored)

    def _place(self, stored: Stored) -> None:
        node = stored.fields["spec.nodeName"]
        if stored.uid in self._placed or node not in self._placing.rows:
            return
        bound = read_pod(stored.json)
        self._placed[stored.uid] = node, bound
        self._placing.rows[node].add(bound)
        # A bound pod can only help pods that want to be near it.
        for uid, (_, pod) in self._pending.items():
            if any(term.selects(bound) for term in pod.affinity):
                self._untried[uid] = None

    def _forget(self, uid: str) -> None:
        self._pending.pop(uid, None)
        self._untried.pop(uid, None)
        if uid in self._placed:
            node, pod = self._placed.pop(uid)
            self._placing.rows[node].discard(pod)
            self._retry_all()

    def reconcile(self, key: Key) -> float | None:
        """Try the pods that were not tried since the last change, for a short time."""
        del key
        until = time.monotonic() + _SLICE_REAL_SECONDS
        while self._untried:
            uid = next(iter(self._untried))
            del self._untried[uid]
            if uid in self._pending:
                self._try(*self._pending[uid])
            if time.monotonic() > until:
                break
        return 0.0 if self._untried else None

    def _try(self, stored: Stored, pod: Pod) -> None:
        rows = self._placing.rows.values()
        judge = Judge(pod, rows)
        rejections = [(row, judge.find_rejection(row)) for row in rows]
        # The emptiest node, then by name: this spreads pods, and is the same in every run.
        free = [row for row, rejection in rejections if rejection is None]
        row: Row | None = min(free, key=lambda row: (len(row.pods), row.name), default=None)
        if row is None:
            self._refuse(stored, describe_rejections([each for _, each in rejections if each is not None]))
            return
        self.registry.bind(stored, row.name)
        message = f"Successfully assigned {stored.namespace}/{stored.name} to {row.name}"
        self.registry.record(_NAME, stored, "Scheduled", message)

    def _refuse(self, stored: Stored, message: str) -> None:
        body = stored.body()
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        condition["observedGeneration"] = body["metadata"]["generation"]
        if set_condition(body["status"], condition, self.registry.clock.timestamp()):
            self.registry.write(stored, body)
            self.registry.record(_NAME, stored, "FailedScheduling", message, warning=True)


def _is_schedulable(stored: Stored) -> bool:
    spec = stored.json["spec"]
    return not spec.get("schedulingGates") and spec["schedulerName"] == _NAME and not stored.going


def describe_rejections(rejections: list[Rejection]) -> str:
    """Return the message of PodScheduled for a pod that each of the cluster's nodes rejects."""
    if not rejections:
        return "no nodes available to schedule pods"
    head = f"0/{len(rejections)} nodes are available"
    reasons = Counter(reason for rejection in rejections for reason in rejection.reasons)
    evictable = sum(rejection.by_eviction for rejection in rejections)
    counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    verdicts = [(evictable, "No preemption victims found for incoming pod")]
    verdicts.append((len(rejections) - evictable, "Preemption is not helpful for scheduling"))
    helpful = ", ".join(f"{count} {verdict}" for count, verdict in verdicts if count)
    return f"{head}: {counted}. no new claims to deallocate, preemption: {head}: {helpful}."
