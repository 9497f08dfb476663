"""One run: a RayCluster and a driver on a stack that runs, until everything is gone again."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx

from demo.loop.verification import SETTLE_SECONDS, Verifier
from demo.ray import ray_manifests as manifests
from demo.ray.checks import list_problems
from demo.ray.image import PROGRAMS
from demo.ray.installing import Installation, ray_version
from demo.ray.looking import Looker
from demo.ray.run_log import Line, Look, RunLog
from demo.stack.readiness import listens
from demo.stack.stack import Stack
from standins.processes.child import Child, Command, describe_last_words
from standins.processes.free_ports import draw_ports
from standins.processes.kubeconfig import open_client

_LOOK_SECONDS = 0.3
_DRIVER_END_SECONDS = 5.0
_LAST_LINES = 12
_DRIVER_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_gcs_server_request_timeout_seconds": "300"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended."""

    lines: list[Line]
    problems: list[str]
    """What is not as it should be; empty when all is well."""
    started_at: float
    kinds: tuple[str, ...]
    calls: Mapping[str, Mapping[str, int]]
    """How often GKE was called about each pool, by method."""


class Run:
    """One run.

    Args:
        stack: A running stack on a real control plane with KubeRay, whose kubelet has Ray's image.
        ray: The installed Ray, for the driver.
        tell: Told every line as it happens.
        seconds_max: When to give up.
    """

    def __init__(
        self, stack: Stack, ray: Installation, *, tell: Callable[[Line], None], seconds_max: float
    ) -> None:
        self._stack, self._ray = stack, ray
        self._tell, self._seconds_max = tell, seconds_max
        self._run_log = RunLog()
        self._driver: Child | None = None
        self._gcs_port, self._client_port = draw_ports(2)
        self._deadline = 0.0

    def perform(self, kinds: tuple[str, ...]) -> Outcome:
        """Return the outcome of a driver that asks for resources of these kinds.

        Raises:
            ProcessDied: a part of the stack ended for good.
            httpx.HTTPError: the cluster refused the RayCluster, or stopped answering.
        """
        started_at = time.time()
        self._deadline = time.monotonic() + self._seconds_max
        log = self._stack.layout.log("ray-driver")
        try:
            with Looker(self._stack, log) as looker, open_client(self._stack.layout.kubeconfig) as kubernetes:
                self._apply(kubernetes, kinds)
                problems = (
                    self._follow(looker, "the head listens", lambda _look: listens(self._gcs_port))
                    or self._drive(looker, kinds)
                    or self._follow(looker, "no worker and no pool is left", _is_idle)
                )
                self._delete(kubernetes)
                problems = problems or self._follow(looker, "the cluster is gone", _is_gone)
        finally:
            if self._driver is not None:
                self._driver.end(_DRIVER_END_SECONDS)
        with Verifier(self._stack.addresses) as verifier:
            problems += verifier.verify([], settle_seconds=0.0 if problems else SETTLE_SECONDS)
        facts = self._run_log.facts
        calls: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for call in facts.calls:
            calls[call.pool][call.method] += 1
        return Outcome(
            lines=self._run_log.lines,
            problems=problems + list_problems(facts, kinds),
            started_at=started_at,
            kinds=kinds,
            calls=calls,
        )

    def _apply(self, kubernetes: httpx.Client, kinds: tuple[str, ...]) -> None:
        body = manifests.ray_cluster(ray_version(), kinds, gcs_port=self._gcs_port, client_port=self._client_port)
        kubernetes.post(manifests.PATH, json=body).raise_for_status()
        self._say("user", f"applies the RayCluster {manifests.NAME}")

    def _delete(self, kubernetes: httpx.Client) -> None:
        self._say("user", f"deletes the RayCluster {manifests.NAME}")
        kubernetes.delete(f"{manifests.PATH}/{manifests.NAME}", params={"propagationPolicy": "Background"})

    def _drive(self, looker: Looker, kinds: tuple[str, ...]) -> list[str]:
        """Start the driver, and follow until it is done with its actors."""
        self._driver = Child(
            Command(
                name="ray-driver",
                arguments=(
                    *(str(self._ray.python), str(PROGRAMS / "driver.py"), f"127.0.0.1:{self._gcs_port}"),
                    *kinds,
                ),
                folder=self._stack.layout.home,
                environment=_DRIVER_ENVIRONMENT,
            ),
            self._stack.layout.log("ray-driver"),
        )
        self._say("user", "starts a driver")
        return self._follow(
            looker, "the driver releases its actors", lambda _look: self._run_log.facts.let_go >= set(kinds)
        )

    def _follow(self, looker: Looker, what: str, done: Callable[[Look], bool]) -> list[str]:
        """Look until it is done; return what is wrong when the time is up, or the driver failed."""
        while True:
            self._stack.check()
            look = looker.look()
            for line in self._run_log.take(look):
                self._tell(line)
            if done(look):
                return []
            if time.monotonic() > self._deadline:
                return [f"not within {self._seconds_max:g} s: {what}"]
            if self._driver is not None and self._driver.exit_code:
                return [f"the driver failed; {describe_last_words(self._driver.log, _LAST_LINES)}"]
            time.sleep(_LOOK_SECONDS)

    def _say(self, who: str, what: str) -> None:
        line = Line(time.time(), who, what)
        self._run_log.lines.append(line)
        self._tell(line)


def _is_idle(look: Look) -> bool:
    workers = [pod for pod in look.pods if pod["metadata"]["labels"].get("ray.io/node-type") == "worker"]
    return not workers and not look.pools


def _is_gone(look: Look) -> bool:
    return not look.clusters and not look.pods
