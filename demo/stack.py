"""A whole local stack with one start and one stop, for the demo, the tests and `make up`."""

import json
import os
import threading
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

import httpx
import msgspec

from demo import parts
from demo.functions import stage
from demo.objects import create_subscriptions, prepare_cluster
from demo.settings import CLUSTER_PATH, FUNCTIONS, Addresses, Layout, StackSettings, State
from standins.kit.addresses import HOST, answers, draw_ports, is_free, listens, read_ports, write_private
from standins.kit.lifecycle import hold_interrupts
from standins.kit.processes import NotReady, Processes, describe_last_words

if TYPE_CHECKING:
    from standins.controlplane.plane import ControlPlane

_PORTS = (*FUNCTIONS, "exporter", "cluster", "google", "pubsub")
_FIRST_PORT, _LAST_PORT = 30_000, 32_700  # above those that are drawn, for which another process may ask
_LAST_LINES = 12
_START_SECONDS_MAX = 195.0
"""Longer than a control plane waits for one of its own parts, so that it can say which."""
_TICK_VIRTUAL_SECONDS = 60
_TICK_SECONDS_MIN = 1.0  # a tick of a small cluster takes a part of a second
_TICK_SECONDS_MAX = 60.0


class Stack:
    """A running stack, used as a context manager; everything that it writes is in one folder.

    Start it from a thread that lives as long as the stack does: Linux ends a child when the thread
    that made it ends. `say` is told, in a few words, what is being waited for. A `plane` that runs
    already, which the caller can strike, is used in place of the chosen cluster. With `keep_ports`
    it listens where every stack of this folder does, if these ports are free.
    """

    addresses: Addresses
    """Where the parts listen; there once the stack has started."""

    def __init__(
        self,
        home: Path,
        settings: StackSettings,
        *,
        say: Callable[[str], None] = lambda _text: None,
        plane: "ControlPlane | None" = None,
        keep_ports: bool = False,
    ) -> None:
        if plane is not None and not settings.is_real:
            raise ValueError(f"settings.cluster: {settings.cluster} is not valid with a plane; valid: real")
        self.layout = Layout(home.resolve())
        self.settings = settings
        self.ticks = threading.Event()
        """Clear it, and no function gets a tick until it is set again."""
        self.ticks.set()
        self._say, self._plane, self._keeps_ports = say, plane, keep_ports
        self._started, self._ending = False, threading.Event()
        self._writing = threading.Lock()
        self.supervisor = Processes(self.layout.logs, restarts=True, on_change=self._write_state)

    def __enter__(self) -> Self:
        self.layout.create()
        self.supervisor.__enter__()
        try:
            self._start()
        except BaseException:
            with hold_interrupts():
                self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with hold_interrupts():  # a second Ctrl-C must not leave processes behind
            self._say("ending the stack")
            self._end()
            self.layout.state.unlink(missing_ok=True)

    def _end(self) -> None:
        self._ending.set()
        self.supervisor.end_all()
        self.layout.drop_control_plane()

    def _start(self) -> None:
        self._say(f"starting the {self.settings.cluster} cluster, GKE and Pub/Sub")
        ports = choose_ports(self.layout.home if self._keeps_ports else None)
        if self._plane is None:
            self.supervisor.start(parts.cluster(self.layout, self.settings, ports["cluster"]))
        self.supervisor.start(parts.google(self.layout, self.settings, ports))
        stage(self.layout.bundle)
        kubernetes = self._move_in(self._plane) if self._plane else self._wait_for_ports("cluster")["url"]
        prepare_cluster(self.layout.kubeconfig)
        google = self._wait_for_ports("google")
        self.addresses = Addresses(
            kubernetes=kubernetes,
            kubeconfig=str(self.layout.kubeconfig),
            google_rest=google["rest"],
            pubsub_grpc=google["grpc"],
            functions={name: f"http://{HOST}:{ports[name]}/" for name in FUNCTIONS},
            exporter=f"http://{HOST}:{ports['exporter']}",
        )
        self._say("starting the functions and the exporter")
        self.supervisor.start(parts.kubelet(self.layout, self.settings))
        self.supervisor.start(parts.autoscaler(self.layout, self.settings, google["rest"]))
        self._start_provisioner()
        self._started = True
        self._write_state()

    def _start_provisioner(self) -> None:
        """Start what is deployed, all at once, and return when all of it answers."""
        addresses = self.addresses
        for name in FUNCTIONS:
            self.supervisor.start(parts.function(self.layout, self.settings, name, addresses))
        create_subscriptions(addresses.google_rest, addresses.functions)
        self.supervisor.start(parts.exporter(self.layout, self.settings, addresses))
        for name, url in addresses.functions.items():
            port = int(url.rstrip("/").rpartition(":")[2])
            self.supervisor.wait_for(f"the function {name!r}", lambda port=port: listens(port))  # type: ignore[misc]
            # Each has a job of its own: a slow one does not hold up the other.
            threading.Thread(target=self._tick, args=(f"{url}tick?cluster={CLUSTER_PATH}",), daemon=True).start()
        self.supervisor.wait_for("the exporter", lambda: answers(f"{addresses.exporter}/readyz"))

    def _tick(self, url: str) -> None:
        """Call a function at once and at an interval until the end, as Cloud Scheduler does.

        A call that fails is not repeated before the next tick.
        """
        seconds = max(_TICK_SECONDS_MIN, _TICK_VIRTUAL_SECONDS / self.settings.speed)
        with httpx.Client(timeout=_TICK_SECONDS_MAX, trust_env=False) as client:
            while not self._ending.is_set():
                if self.ticks.is_set():
                    try:
                        client.post(url, headers={"User-Agent": "Google-Cloud-Scheduler"}).raise_for_status()
                    except httpx.HTTPError as error:
                        self._note(f"{url}: {error!r}")
                self._ending.wait(seconds)

    def _note(self, message: str) -> None:
        """Write a record into the log of what plays Cloud Scheduler."""
        record = {"severity": "WARNING", "message": message, "time": datetime.now(UTC).isoformat()}
        if not self._ending.is_set():
            with self.layout.log("scheduler").open("a", encoding="utf-8") as log:
                log.write(json.dumps(record) + "\n")

    def _move_in(self, plane: "ControlPlane") -> str:
        """Apply the objects of `parts.cluster` to a running control plane; return its URL."""
        from standins.controlplane.chart import read_local_chart  # noqa: PLC0415 -- `make up` has no use for it

        things = read_local_chart(parts.CHART)
        plane.apply(things)
        plane.write_accounts(self.layout.accounts, things)
        write_private(self.layout.kubeconfig, plane.kubeconfig.read_text(encoding="utf-8"))
        return plane.url

    def _wait_for_ports(self, name: str) -> dict[str, str]:
        """Return the ports file of a process that starts."""
        path = self.layout.ports_file(name)
        try:
            return self.supervisor.wait_for(f"the process {name!r}", lambda: read_ports(path), _START_SECONDS_MAX)
        except NotReady as error:
            raise NotReady(f"{error}; {describe_last_words(self.layout.log(name), _LAST_LINES)}") from error

    def _write_state(self) -> None:
        # The file says that everything is ready: a process that waits for it must find all parts.
        if not self._started:
            return
        state = State(os.getpid(), self.settings, self.addresses, self.supervisor.states())
        with self._writing:
            write_private(self.layout.state, msgspec.json.encode(state).decode())


def choose_ports(home: Path | None = None) -> dict[str, int]:
    """Return a free port for each part; those of a folder are always the same, if they are free.

    So a shell whose variables point at `make up` finds the next one there, too.

    Raises PortTaken: no free ones were found.
    """
    if home is not None:
        first = _FIRST_PORT + zlib.crc32(str(home).encode()) % (_LAST_PORT - _FIRST_PORT)
        kept = dict(zip(_PORTS, range(first, first + len(_PORTS)), strict=True))
        if all(is_free(port) for port in kept.values()):
            return kept
    return dict(zip(_PORTS, draw_ports(len(_PORTS)), strict=True))
