"""One run: apply, follow what the product says until the end, verify. All waits are bounded.

What waits, and why, are the words of `tpu-provisioner status` and `why`; nothing here judges it
anew. A workload that cannot go on is deleted, as its owner would, so that nothing remains.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import httpx

from cli.access.connections import Deployment, open_deployment
from cli.board.site import Readings
from cli.explanation.why import History, tell
from cli.fleet.rows import PoolRow, Row, WaitingRow
from cli.fleet.status import Status
from demo.feed import Feed, Outcome, Refusal, View
from demo.manifests import Applier, Document
from demo.parts import operator_environment
from demo.settings import CLUSTER_PATH
from demo.stack import Stack
from demo.verification import SETTLE_SECONDS, count_changes, verify
from shared.model.decisions import Reason, Verdict

_LOOK_SECONDS = 0.5
_BASE_SECONDS = 60.0
_VIRTUAL_SECONDS = 2400.0
"""A create of five minutes, a run of one, a delete of four, and twice that for what goes wrong."""
_RUNS_SECONDS = 3.0  # how long a workload that does not end by itself is shown while all of it runs
_ENDINGS = ("Completed", "Complete", "Failed", "Succeeded")
"""Conditions, phases of pods and states of a RayJob that end a workload."""
_STANDING = ("LeaderWorkerSet", "RayCluster", "RayService", "Deployment", "StatefulSet")
"""Kinds that never end by themselves."""
_WARNINGS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What a person may choose about a run; times are real seconds."""

    timeout_seconds: float = 0.0  # 0 for a default that follows the speed
    patience_seconds: float = 0.0
    """How long nothing must happen, at least, before a workload is given up. Where something kills
    the exporter or the API server, it must be longer than their restart takes."""

    def bound_run(self, speed: float) -> float:
        """Return the longest that a run may take."""
        return self.timeout_seconds or _BASE_SECONDS + _VIRTUAL_SECONDS / speed

    def bound_silence(self, speed: float) -> float:
        """Return how long nothing happens before `why` is asked, and what it says is final."""
        return max(6.0, 60 / speed, self.patience_seconds)


@dataclass(slots=True)
class Followed:
    """One workload and what was last seen of it."""

    document: Document
    changed_at: float
    ending: str = ""
    over: bool = False
    ran_at: float | None = None  # since when all of it runs
    seen: object = None

    @property
    def name(self) -> str:
        """Its namespace and name, as the rows of a status have it."""
        return f"{self.document.namespace}/{self.document.name}"

    def owns(self, row: Row) -> bool:
        """Return whether a row is about it, or about what its controller made of it."""
        named = row.owner == self.name
        return named or (row.kind != self.document.kind and row.owner.startswith(f"{self.name}-"))

    def take(self, body: dict[str, Any] | None, status: Status, now: float) -> None:
        """Take in what is there now."""
        self.ending = find_ending(body) if body else self.ending
        self.over = body is None or bool(self.ending)
        pools = list(filter(self.owns, status.pools))
        waiting = list(filter(self.owns, status.waiting))
        seen = (body and body["metadata"].get("resourceVersion"), pick_state(pools, waiting))
        if seen != self.seen:
            self.seen, self.changed_at = seen, now
        runs = pools and not waiting and all(0 < row.nodes == row.hosts_busy for row in pools)
        self.ran_at = self.ran_at or (now if runs else None)


def pick_state(pools: list[PoolRow], waiting: list[WaitingRow]) -> object:
    """Return those fields of rows of which a change shows that a workload goes on."""
    return (
        [(row.pool, row.state, row.decision, row.nodes, row.hosts_busy) for row in pools],
        [(row.shape, row.slices, row.decision, row.reason, row.failures) for row in waiting],
    )


def find_ending(body: dict[str, Any]) -> str:
    """Return what has ended a workload; empty while it goes on."""
    status = body.get("status") or {}
    ended = [each["type"] for each in status.get("conditions") or () if each.get("status") == "True"]
    named = [status.get("phase"), status.get("jobDeploymentStatus")]
    return next((str(each) for each in (*ended, *named) if each in _ENDINGS), "")


def is_moving(pool: PoolRow) -> bool:
    """Return whether GKE or pods are busy with a pool: its workload does not stand still."""
    empty = pool.state == "RUNNING" and not pool.nodes and not pool.failure
    return pool.state in ("PROVISIONING", "RECONCILING", "STOPPING") or bool(pool.hosts_busy) or empty


def list_reasons(history: History) -> list[tuple[str, str]]:
    """Return reasons and words of `why` about a workload that does not go on."""
    if history.suspended:
        return [("suspended", history.suspended)]
    now = history.now
    refused = [row for row in now.waiting if (row.stuck, row.decision) == (True, Verdict.REFUSE)]
    rows = [(row.reason, row.message) for row in refused or (*now.waiting, *now.left_alone)]
    if refused:
        return list(dict.fromkeys(rows))
    told = [(str(each.reason), each.message) for each in history.decisions]
    last = list(filter(lambda entry: entry.bad, history.entries))[-_WARNINGS_MAX:]
    warnings = {each.about: ("event", f"{each.about}: {each.text}") for each in last}  # of each object one
    return list(dict.fromkeys([*rows, *told, *warnings.values()]))


class Run:
    """Applies documents to a running stack and follows them to their end.

    `on_look` is called after every look with the seconds since the apply; a test kills here.
    """

    def __init__(
        self,
        stack: Stack,
        view: View,
        options: RunOptions,
        *,
        on_look: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        self._stack, self._view, self._options, self._on_look = stack, view, options, on_look
        self._speed = stack.settings.speed
        environment = operator_environment(stack.layout, stack.settings, stack.addresses)
        self._deployment: Deployment = open_deployment(environment)
        self._readings = Readings(self._deployment)
        self._readings.read()  # The first one takes longest, and must not hide how the run begins.
        self._applier = Applier(stack.addresses.kubeconfig)
        self._began_at = time.time()
        self._feed = Feed(self._began_at)
        self._outcome = Outcome(stories=self._feed.stories)
        self._workloads: list[Followed] = []
        self._later: list[Document] = []

    def perform(self, documents: Iterable[Document]) -> Outcome:
        """Return the outcome of applying the documents.

        Raises BadManifest: the cluster refused one. ProcessDied: a part of the stack has ended.
        """
        wanted = list(documents)
        with closing(self._applier):
            self._later = [each for each in wanted if each.after]
            self._apply([each for each in wanted if not each.after])
            if not self._workloads:
                self._outcome.problems.append("no workload was created")
            self._follow()
        self._conclude()
        return self._outcome

    def _apply(self, documents: list[Document]) -> None:
        created, notes = self._applier.create(documents)
        for note in notes:
            self._view.say(note)
        now = time.time()
        self._workloads += [Followed(each, now) for each in created if each.is_workload]

    def _follow(self) -> None:
        """Follow to the end, or note what is missing when the time is up."""
        deadline = self._began_at + self._options.bound_run(self._speed)
        while not self._outcome.problems:
            status = self._look()
            self._apply_due()
            self._end_standing()
            if not (status.pools or status.errors or self._later or self._list_unfinished()):
                return
            self._withdraw_still(status)
            if time.time() > deadline:
                self._outcome.problems += self._list_missing(status)
            time.sleep(_LOOK_SECONDS)

    def _look(self) -> Status:
        self._outcome.page = self._readings.read()
        status, now = self._readings.status, time.time()
        lines = []
        for each in self._list_unfinished():
            try:
                each.take(self._applier.read(each.document), status, now)
            except httpx.HTTPError:
                continue  # a part of the stack may just be starting again
            if each.over:
                self._outcome.endings[each.name] = each.ending
                what = f"{each.document.kind} is {each.ending or 'gone'}"
                lines.append(self._feed.say(each.name, what, now, "bad" if each.ending == "Failed" else "ok"))
        lines += self._feed.take(status, now)  # the end of a workload is why its pools go
        self._note_mixed(status)
        self._view.show(lines, list(self._feed.stories.values()))
        self._stack.supervisor.check()
        self._on_look(now - self._began_at)
        return status

    def _list_unfinished(self) -> list[Followed]:
        return [each for each in self._workloads if not each.over]

    def _note_mixed(self, status: Status) -> None:
        """Note slices that lie on several pools: such a run does not end well, whatever follows."""
        mixed = [f"{each.about}: {each.text}" for each in status.troubles if each.reason == Reason.SLICE_MIXED]
        self._outcome.problems += mixed

    def _apply_due(self) -> None:
        """Apply the workloads that waited for the end of another one."""
        over = {each.name: each.document.name for each in self._workloads if each.over}
        for document in self._later.copy():
            if f"{document.namespace}/{document.after}" in over:
                self._later.remove(document)
                self._view.say(f"applying {document.kind} {document.name}, because {document.after} is over")
                self._apply([document])

    def _end_standing(self) -> None:
        """Delete what has run and would never end."""
        now = time.time()
        for each in self._list_unfinished():
            ran = each.ran_at is not None and now - each.ran_at > _RUNS_SECONDS
            if ran and each.document.kind in _STANDING:
                self._delete(each, "all of it has run")

    def _withdraw_still(self, status: Status) -> None:
        """Ask `why` once nothing happens to any workload.

        All of them, because what one of them still does may free what another one waits for.
        """
        unfinished = self._list_unfinished()
        if status.errors or not self._is_quiet(unfinished, status):
            return
        for each in unfinished:
            history = tell(self._deployment, CLUSTER_PATH, "", each.document.namespace, each.document.name)
            nothing = ("no_reason", f"nothing tells why {each.document.kind} {each.document.name} does not go on")
            self._withdraw(each, list_reasons(history) or [nothing])

    def _is_quiet(self, unfinished: list[Followed], status: Status) -> bool:
        """Return whether nothing has happened to any of some workloads, nor is on its way."""
        moving: list[Row] = [*filter(is_moving, status.pools), *(row for row in status.waiting if row.next_try)]
        if any(each.owns(row) for each in unfinished for row in moving):
            return False
        now = time.time()
        quiet = now - max((each.changed_at for each in unfinished), default=now)
        return quiet >= self._options.bound_silence(self._speed)

    def _withdraw(self, each: Followed, reasons: list[tuple[str, str]]) -> None:
        for reason, message in reasons:
            self._outcome.refusals.append(Refusal(each.name, reason, message))
            self._view.say(f"{each.name} does not go on: {message} [{reason}]")
        self._delete(each, "it cannot continue")

    def _delete(self, each: Followed, why: str) -> None:
        self._view.say(f"deleting {each.document.kind} {each.name}, because {why}")
        self._applier.delete(each.document)
        each.over = True
        self._outcome.endings[each.name] = ""

    def _list_missing(self, status: Status) -> Iterator[str]:
        """Yield what keeps the run from its end."""
        prefix = f"not finished within {self._options.bound_run(self._speed):.0f} s"
        for row in status.waiting:
            yield f"{prefix}: {row.owner}: {row.decision}: {row.message} [{row.reason}]"
        for pool in status.pools:
            yield f"{prefix}: node pool {pool.pool} still exists ({pool.state}): {pool.message}"
        if not (status.waiting or status.pools):
            yield from (f"{prefix}: {each.name} is not over" for each in self._list_unfinished())
            yield from (f"{prefix}: no answer: {error}" for error in status.errors)

    def _conclude(self) -> None:
        self._view.say("verifying the end state through the public APIs")
        outcome = self._outcome
        addresses = self._stack.addresses
        outcome.problems += verify(addresses, settle_seconds=0.0 if outcome.problems else SETTLE_SECONDS)
        outcome.calls = count_changes(addresses, since=self._began_at)
        pools = [each.as_row() for each in outcome.stories.values()]
        troubles = [
            {"about": each.workload, "reason": each.reason, "text": each.message} for each in outcome.refusals
        ]
        outcome.page["status"] |= {"pools": pools, "waiting": [], "troubles": troubles}
