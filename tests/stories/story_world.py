"""The world of one story: everything outside of the product, and the runs of its two functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from shared.deliver import deliver, deliver_tick
from shared.engine.budget import Budget
from shared.engine.look import Memory
from shared.engine.outside import Ports
from shared.engine.reconcile import Role
from shared.engine.threads import Crew
from tests.simulation.sim_ports import SimClock
from tests.simulation.sim_scenario import Scenario
from tests.simulation.sim_world import Sent, World
from tests.stories.story_judge import StoryJudge
from tests.stories.story_ports import ClusterPort, GkePort

_OK = range(200, 300)


class _Silent(SimpleNamespace):
    """Counts nothing and judges nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return 0 if name in _COUNTS else lambda *_, **__: None


_COUNTS = ("empty_pools", "failed_fills", "slow_stockouts", "late_successes", "late_machines")


class StoryWorld(World):
    """Everything that is true in one story at one moment."""

    def __init__(self, scenario: Scenario, *, tell: Callable[[str], None] | None = None) -> None:
        super().__init__(scenario, tell=tell)
        self.judge = StoryJudge(self)  # type: ignore[assignment]
        self.fills = _Silent(**dict.fromkeys(_COUNTS, 0))  # type: ignore[assignment]
        self.gangs = _Silent()  # type: ignore[assignment]
        gke = GkePort(self)
        settings = dataclasses.replace(self.ports.settings, capacity_first=False, release_partial_gang_seconds=0)
        self.functions: dict[Role, tuple[Ports, Memory]] = {}
        for role in Role:
            ports = Ports(
                settings=settings,
                pools=gke,
                adds=gke if role == Role.PROVISION else None,
                takes=gke if role == Role.COLLECT else None,
                clusters={name: ClusterPort(self, name) for name in self.cluster_names},
                clock=SimClock(self),
                budget=Budget(settings),
                crew=Crew(threads=False),
            )
            self.functions[role] = ports, Memory()

    def deliver(self, sent: Sent) -> None:
        """Push one message to its function; an end of an operation to both."""
        roles = [Role.PROVISION, Role.COLLECT] if sent.function == "settle" else [Role(sent.function)]
        for role in roles:
            self._deliver_to(role, sent)

    def _deliver_to(self, role: Role, sent: Sent) -> None:
        sent.attempts += 1
        attempt = sent.attempts
        run = self._begin(f"{role} ({sent.text})")

        def work() -> None:
            status = 0
            with self._judged(run, str(role)):
                status = deliver(role, sent.body, *self.functions[role]).status
            self.tell(f"answers {status or 'nothing'}")
            if status in _OK:
                sent.answered = True
            elif not sent.answered:
                self._redeliver(sent, attempt)

        self.time.spawn(work, run)

    def sweep(self) -> None:
        """Let the scheduler call both functions for each cluster."""
        self.swept_at = self.time.now
        for role in Role:
            for cluster in self.cluster_names:
                self._tick(role, cluster)

    def _tick(self, role: Role, cluster: str) -> None:
        run = self._begin(f"{role} tick")
        run.sweeping = True

        def work() -> None:
            with self._judged(run, "tick"):
                answer, _ = deliver_tick(role, cluster, *self.functions[role])
                self.tell(f"answers {answer.status}")

        self.time.spawn(work, run)
