"""A whole local stack with one start and one stop, for the demo, the tests and `make up`.

Start it from a thread that lives as long as the stack does: Linux ends a child when the thread that
made it ends.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Self

from demo.stack import commands
from demo.stack.clusters import ClusterKind
from demo.stack.commands import Addresses, StackSettings
from demo.stack.layout import FUNCTIONS, PROJECT_ROOT, Layout
from demo.stack.local_objects import create_own_namespace, register_cpu_node
from demo.stack.local_subscriptions import create_subscriptions
from demo.stack.ports import choose_ports, list_servers, listen_on, read_kept_ports, write_ports
from standins.controlplane.chart import read_local_chart
from standins.controlplane.plane import ControlPlane
from standins.kit.addresses import answers, listens, read_ports, write_private
from standins.kit.processes import NotReady, Processes, describe_last_words

_LAST_LINES = 12
_START_SECONDS_MAX = 195.0
"""Longer than a control plane waits for one of its own parts, so that it can say which."""
_STARTING = {
    ClusterKind.EMBEDDED: "starting the cluster, GKE and Pub/Sub",
    ClusterKind.REAL: "starting a real Kubernetes control plane with JobSet, GKE and Pub/Sub",
}
_STAGE_SCRIPT = Path(__file__).with_name("stage_functions.py")


class StagingFailed(Exception):
    """The functions could not be staged; the text is the script's output."""


class Stack:
    """A running stack, used as a context manager.

    Args:
        home: The folder for everything that it writes.
        settings: Speed, seed and so on.
        say: Told, in a few words, what is being waited for.
        plane: A running control plane of the caller's to use, who can then strike its parts; None
            starts the chosen cluster as one of the stack's own processes.
        keep_ports: Listen where the last stack of this folder did, as far as these ports are free.
    """

    def __init__(
        self,
        home: Path,
        settings: StackSettings,
        *,
        say: Callable[[str], None] = lambda _text: None,
        plane: ControlPlane | None = None,
        keep_ports: bool = False,
    ) -> None:
        if plane is not None and settings.cluster is not ClusterKind.REAL:
            raise ValueError(f"settings.cluster: {settings.cluster} is not valid with a plane; valid: real")
        self.layout = Layout(home.resolve())
        self.settings = settings
        self._say, self._plane, self._keeps_ports = say, plane, keep_ports
        self._addresses: Addresses | None = None
        self._started = False
        self._writing = threading.Lock()
        self.supervisor = Processes(self.layout.logs, restarts=settings.restarts, on_change=self._write_state)

    def __enter__(self) -> Self:
        self.layout.create()
        self.supervisor.__enter__()
        try:
            self._start()
        except BaseException:
            self.supervisor.end_all()
            self.layout.drop_control_plane()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._say("ending the stack")
        self.supervisor.end_all()
        self.layout.state.unlink(missing_ok=True)
        self.layout.drop_control_plane()

    @property
    def addresses(self) -> Addresses:
        """Where the parts listen; known once the stack has started."""
        if self._addresses is None:
            raise NotReady("the stack has not started")
        return self._addresses

    def kill(self, name: str) -> None:
        """Kill one process as a crash would."""
        self.supervisor.kill(name)

    def check(self) -> None:
        """Raise `ProcessDied` when a process is gone for good."""
        self.supervisor.check()

    def _start(self) -> None:
        self._say(_STARTING[self.settings.cluster])
        ports = self._choose_ports()
        if self._plane is None:
            self.supervisor.start(listen_on(commands.cluster(self.layout, self.settings), ports))
        self.supervisor.start(listen_on(commands.google(self.layout, self.settings), ports))
        _stage(self.layout)
        kubernetes = self._move_in(self._plane) if self._plane else self._wait_for_ports("cluster")["url"]
        self.supervisor.start(commands.kubelet(self.layout, self.settings))
        register_cpu_node(self.layout.kubeconfig)
        create_own_namespace(self.layout.kubeconfig)
        google = self._wait_for_ports("google")
        self._say("starting the functions")
        self.supervisor.start(commands.autoscaler(self.layout, self.settings, gke_rest=google["rest"]))
        self._addresses = Addresses(
            kubernetes=kubernetes,
            kubeconfig=str(self.layout.kubeconfig),
            gke_rest=google["rest"],
            pubsub_rest=google["rest"],
            pubsub_grpc=google["grpc"],
            functions={name: f"http://127.0.0.1:{ports[name]}/" for name in FUNCTIONS},
            exporter=f"http://127.0.0.1:{ports['exporter']}",
            logging=google["rest"],
        )
        self._start_functions(ports)
        self._start_exporter(ports["exporter"])
        self._started = True
        self._write_state()

    def _choose_ports(self) -> dict[str, int]:
        """Return where functions and exporter listen; for kept ports, where all parts do."""
        names = (*FUNCTIONS, "exporter")
        if not self._keeps_ports:
            return choose_ports(names, {})
        real = self.settings.cluster is ClusterKind.REAL  # it has several ports, and chooses them
        path = self.layout.kept_ports
        ports = choose_ports((*names, *list_servers(without="cluster" if real else "")), read_kept_ports(path))
        write_ports(path, ports)
        return ports

    def _move_in(self, plane: ControlPlane) -> str:
        """Apply the objects of `commands.cluster` to a running control plane; return its URL."""
        things = read_local_chart(commands.CHART)
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

    def _start_functions(self, ports: dict[str, int]) -> None:
        addresses = self.addresses
        for name in FUNCTIONS:
            self.supervisor.start(
                commands.function(
                    self.layout,
                    self.settings,
                    name,
                    port=ports[name],
                    kubernetes=addresses.kubernetes,
                    gke_rest=addresses.gke_rest,
                )
            )
        create_subscriptions(addresses.pubsub_rest, addresses.functions)
        for name in FUNCTIONS:
            self.supervisor.wait_for(f"the function {name!r}", lambda port=ports[name]: listens(port))  # type: ignore[misc]
        self.supervisor.start(commands.ticker(self.settings, functions=addresses.functions))

    def _start_exporter(self, port: int) -> None:
        self._say("starting the exporter")
        self.supervisor.start(
            commands.exporter(
                self.layout,
                self.settings,
                kubernetes=self.addresses.kubernetes,
                pubsub_grpc=self.addresses.pubsub_grpc,
                port=port,
            )
        )
        self.supervisor.wait_for("the exporter", lambda: answers(f"{self.addresses.exporter}/readyz"))

    def _write_state(self) -> None:
        # The file says that everything is ready: a process that waits for it must find all parts.
        if not self._started or self._addresses is None:
            return
        state = {
            "supervisor_pid": os.getpid(),
            "written_at": time.time(),
            "settings": asdict(self.settings),
            "addresses": asdict(self._addresses),
            "processes": [asdict(each) for each in self.supervisor.states()],
        }
        with self._writing:
            part = self.layout.state.with_suffix(".part")
            part.write_text(json.dumps(state, indent=2) + "\n")
            part.replace(self.layout.state)


def _stage(layout: Layout) -> None:
    """Make the functions' bundle with the same script that the deployment uses."""
    answer = subprocess.run(
        [sys.executable, str(_STAGE_SCRIPT), str(layout.bundle)],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise StagingFailed(f"{_STAGE_SCRIPT.name} ended with {answer.returncode}:\n{answer.stderr.strip()}")
