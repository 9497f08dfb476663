"""One run from the apply to the verified end, on a stack that runs. All waits are bounded."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from demo.loop.applying import Applier
from demo.loop.asking import Asker
from demo.loop.demo_manifests import Document
from demo.loop.observer import Observer
from demo.loop.progress import (
    Patience,
    Refusal,
    Refuser,
    describe_missing,
    find_stuck,
    find_unplaced,
    is_finished,
    list_quiet,
)
from demo.loop.run_outcome import Outcome
from demo.loop.timeline import Timeline
from demo.loop.verification import SETTLE_SECONDS, Verifier
from demo.loop.views import View
from demo.stack.stack import Stack
from standins.processes.kubeconfig import open_client

_LOOK_SECONDS = 0.1
_ASK_SECONDS_MAX = 5.0
_BASE_SECONDS = 60.0
_VIRTUAL_SECONDS = 2400.0
"""A create of five minutes, a run of one, a delete of four, and twice that for what goes wrong on
the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What a person may choose about a run."""

    timeout_seconds: float = 0.0
    """Real seconds; 0 for a default that follows the speed."""
    expect_all: bool = False
    """Whether a refusal is a failure."""
    patience: Patience | None = None
    """How long nothing may happen; None for a default that follows the speed. Where something kills
    the exporter or the API server, it must be longer than their restart takes: a silence then says
    nothing about the demand."""

    def bound_seconds(self, speed: float) -> float:
        """Return the longest that a run may take, in real seconds."""
        return self.timeout_seconds or _BASE_SECONDS + _VIRTUAL_SECONDS / speed


class Run:
    """Applies documents to a stack and follows them to their end.

    Args:
        stack: A running stack.
        view: Who is told meanwhile.
        options: The person's choices.
        on_look: Called after every look at the stack; the chaos test kills things here.
    """

    def __init__(
        self,
        stack: Stack,
        view: View,
        options: RunOptions,
        *,
        on_look: Callable[[Timeline], None] = lambda _timeline: None,
    ) -> None:
        self._stack, self._view, self._options, self._on_look = stack, view, options, on_look
        self._speed = stack.settings.speed
        self._refusals: list[Refusal] = []
        self._withdrawn: set[tuple[str, str]] = set()
        self._later: list[Document] = []

    def perform(self, documents: list[Document]) -> Outcome:
        """Return the outcome of applying the documents.

        Raises:
            BadManifest: the cluster refused one of them.
            ProcessDied: a part of the stack ended for good.
        """
        kubeconfig = self._stack.addresses.kubeconfig
        observer = Observer(self._stack.layout, self._stack.addresses)
        with (
            closing(Applier(kubeconfig)) as applier,
            open_client(kubeconfig, timeout_seconds=_ASK_SECONDS_MAX) as client,
            observer,
        ):
            started_at = time.time()
            self._later = [each for each in documents if each.after]
            applied = applier.apply(each for each in documents if not each.after)
            for note in applied.notes:
                self._view.say(note)
            later = [(each.namespace, each.name) for each in self._later]
            timeline = Timeline([*applied.jobsets, *later], started_at)
            problems = self._follow(timeline, observer, applier, Asker(client))
            return self._conclude(timeline, observer, problems, applied.notes)

    def _follow(self, timeline: Timeline, observer: Observer, applier: Applier, asker: Asker) -> list[str]:
        """Follow the run; return what was missing when its time was up, or nothing."""
        deadline = time.time() + self._options.bound_seconds(self._speed)
        patience = self._options.patience or Patience.at_speed(self._speed)
        while not is_finished(timeline):
            self._look(timeline, observer)
            self._apply_due(timeline, applier)
            self._stack.check()
            now = time.time()
            stuck = find_stuck(timeline, now, patience)
            quiet = list_quiet(timeline, now, patience)
            if quiet and not stuck:
                stuck = find_unplaced(timeline, quiet) or asker.find_refused(quiet, now)
            for workload, refusals in stuck:
                self._withdraw(applier, (workload.namespace, workload.name), refusals)
            if now > deadline:
                bound = self._options.bound_seconds(self._speed)
                waiting = [each for each in timeline.workloads.values() if not each.over]
                missing = describe_missing(timeline, now) + asker.describe(waiting)
                return [f"not finished within {bound:.0f} s: {each}" for each in missing]
        return []

    def _apply_due(self, timeline: Timeline, applier: Applier) -> None:
        """Apply the JobSets that waited for the end of another one."""
        for document in self._later.copy():
            if timeline.workloads[document.namespace, document.after].over:
                self._later.remove(document)
                self._view.say(f"applying JobSet {document.name}, because {document.after} is over")
                timeline.workloads[document.namespace, document.name].progress_at = time.time()
                applier.apply([document])

    def _look(self, timeline: Timeline, observer: Observer) -> None:
        for observation in observer.drain(_LOOK_SECONDS):
            lines = timeline.observe(observation)
            if lines:
                self._view.show(lines, timeline, time.time())
        self._view.show([], timeline, time.time())
        self._on_look(timeline)

    def _withdraw(self, applier: Applier, workload: tuple[str, str], refusals: list[Refusal]) -> None:
        """Note the refusals and delete the JobSet, as its owner would, so that nothing remains."""
        if workload in self._withdrawn:
            return
        self._withdrawn.add(workload)
        self._refusals += refusals
        for each in refusals:
            lack = "gets no node pool" if each.by != Refuser.CLUSTER else "cannot run"
            self._view.say(f"{each.slice or each.workload} {lack}: {each.reason}: {each.message}")
        self._view.say(f"deleting JobSet {workload[0]}/{workload[1]}, because it cannot continue")
        applier.delete_jobset(*workload)

    def _conclude(
        self, timeline: Timeline, observer: Observer, problems: list[str], notes: tuple[str, ...]
    ) -> Outcome:
        self._view.say("verifying the end state through the public APIs")
        ended_at = time.time()
        with Verifier(self._stack.addresses) as verifier:
            settle_seconds = 0.0 if problems else SETTLE_SECONDS
            problems = problems + verifier.verify(timeline.workloads, settle_seconds=settle_seconds)
            pools_left, facts = verifier.count_pools(), verifier.count_facts()
        self._look(timeline, observer)
        problems += timeline.list_mixed()
        if self._options.expect_all:
            problems += [f"{each.slice or each.workload} was refused: {each.reason}" for each in self._refusals]
        return Outcome(
            timeline=timeline,
            ended_at=ended_at,
            speed=self._speed,
            refusals=tuple(self._refusals),
            problems=tuple(problems),
            notes=notes,
            pools_left=pools_left,
            own_list_calls=observer.own_list_calls,
            facts=facts,
        )
