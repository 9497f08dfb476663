"""One running control plane: starts its processes in order, prepares the API, and ends everything.

Start it from a thread that lives as long as it does: Linux ends a child when the thread that made
it ends. How a single process is started and ended is in `standins.kit.processes`.
"""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import httpx

from standins.controlplane import api_objects as objects
from standins.controlplane import probes
from standins.controlplane.api_objects import open_api
from standins.controlplane.building import find_addition_build
from standins.controlplane.cache import Build
from standins.controlplane.certificates import (
    ADMIN,
    make_tokens,
    render_token_table,
    write_controller_credentials,
    write_credentials,
)
from standins.controlplane.commands import (
    API_SERVER,
    CONTROLLERS,
    ETCD,
    JOBSET,
    SCHEDULER,
    Choices,
    Installed,
    Plan,
)
from standins.controlplane.controllers import JOBSET as JOBSET_CONTROLLER
from standins.controlplane.controllers import choose_controllers, render_secret, webhook_url
from standins.controlplane.layout import Layout, OwnFolder, choose_ports, remove_abandoned
from standins.kit.addresses import write_private
from standins.kit.kubernetes import render_kubeconfig
from standins.kit.processes import Child, describe_last_words

_START_SECONDS_MAX = 180.0
"""Ten on a machine that does nothing else; minutes where several of these start beside a test
run."""
_ANSWER_SECONDS_MAX = 60.0
"""A definition of a thousand fields takes its time while the API server is still starting."""
_END_SECONDS = 1.5
_POLL_SECONDS = 0.05
_LAST_LINES = 12


class ProcessDied(Exception):
    """A process ended that should run; the text names it and shows its last lines."""


class NotReady(Exception):
    """A process runs but did not become ready within its bound.

    The text names it and shows its last lines.
    """


class StartEnded(Exception):
    """The start was told to end before it was over."""


class ControlPlane:
    """A running control plane, used as a context manager.

    Args:
        build: The programs of the base. Those of the further controllers that are chosen are looked
            for in the same cache; entering raises BuildBroken when one is not there.
        choices: Port, compaction and so on.
        folder: For data, logs and keys; None takes a temporary one, which is removed at the end, or
            by the next control plane if this process is killed. Data of an earlier run in it is
            removed at the start.
        say: Told, in a few words, what has been started and how long it took.
        stopping: Once set, whatever waits for a process raises `StartEnded` instead.
    """

    def __init__(
        self,
        build: Build,
        choices: Choices | None = None,
        *,
        folder: Path | None = None,
        say: Callable[..., None] = lambda _text, **_fields: None,
        stopping: threading.Event | None = None,
    ) -> None:
        self._choices = choices or Choices()
        self._build, self._folder, self._say, self._stopping = build, folder, say, stopping
        self._children: dict[str, Child] = {}
        self._down: set[str] = set()
        self._temporary: OwnFolder | None = None
        self._started_at = 0.0

    def __enter__(self) -> Self:
        self._started_at = time.monotonic()
        installed = self._find_controllers()
        ports = choose_ports(self._choices.api_port, controllers=tuple(installed))
        self.layout = Layout(self._folder.resolve() if self._folder else self._take_temporary())
        self._plan = Plan(
            build=self._build, layout=self.layout, ports=ports, choices=self._choices, installed=installed
        )
        try:
            self._start_all()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def url(self) -> str:
        """Where the Kubernetes API is."""
        return self._plan.url

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator."""
        return self.layout.kubeconfig(ADMIN)

    @property
    def api(self) -> httpx.Client:
        """A client with an administrator's rights, as `api_client` describes it."""
        return self._api

    @property
    def has_jobset(self) -> bool:
        """Whether JobSet has been installed."""
        return JOBSET in self._children

    @property
    def processes(self) -> dict[str, int]:
        """The process id of every process that runs, by its name."""
        return {name: child.pid for name, child in self._children.items() if child.exit_code is None}

    def start(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        """Start one process that was killed, and return once it is ready.

        `environment` is added to its own until it is killed again.
        """
        command = self._plan.command(name)
        if environment:
            command = replace(command, environment={**command.environment, **environment})
        if name in self.processes:
            raise ValueError(f"process {name!r} runs already")
        self._children[name] = Child(command, self.layout.log(name))
        self._down.discard(name)
        self._wait(name, lambda: probes.is_ready(name, self._plan))

    def kill(self, name: str) -> None:
        """End one process at once, as a crash would; it stays down until `start`."""
        self._down.add(name)
        self._child(name).kill()

    def pause(self, name: str) -> None:
        """Stop one process from running, as a machine that hangs would."""
        os.killpg(self._child(name).pid, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a paused process go on."""
        os.killpg(self._child(name).pid, signal.SIGCONT)

    def replace_controller(self, old: str, new: str) -> None:
        """Replace a further controller by another version of it, as an upgrade does.

        What it made stays. The definitions become those of the new version; it listens where the
        old one did.

        Raises:
            ValueError: the two are not versions of one controller, or this one makes its
                certificates itself.
            BuildBroken: there is no build of the new one.
        """
        left = self._plan.installed[old].controller
        (installed,) = self._find_further(new).values()
        if installed.controller.namespace != left.namespace or installed.controller.certificates:
            raise ValueError(f"controllers: {new} cannot take the place of {old}")
        self.kill(old)
        del self._children[old]
        ports, others = self._plan.ports, dict(self._plan.installed)
        del others[old]
        addresses = dict(ports.of_controllers)
        addresses[new] = addresses.pop(old)
        self._plan = replace(
            self._plan, installed=others | {new: installed}, ports=replace(ports, of_controllers=addresses)
        )
        self._plan.write_settings()
        self._define(new)
        self._run(new)

    def _find_controllers(self) -> dict[str, Installed]:
        return {JOBSET: Installed(JOBSET_CONTROLLER, self._build)} | self._find_further(*self._choices.controllers)

    def _find_further(self, *names: str) -> dict[str, Installed]:
        cache = self._build.folder.parent
        return {
            each.name: Installed(each, find_addition_build(cache, each.name)) for each in choose_controllers(names)
        }

    def _define(self, *names: str) -> None:
        definitions = []
        for name in names:
            installed = self._plan.installed[name]
            url, authority = self._webhooks_of(name)
            found = installed.controller.read_definitions(installed.manifests, url=url, authority=authority)
            objects.apply(self._api, found)
            definitions += found
        self._wait(f"definitions of {', '.join(names)}", lambda: probes.are_served(self._api, definitions))

    def _run(self, name: str) -> None:
        installed = self._plan.installed[name]
        controller, manifests = installed.controller, installed.manifests
        objects.apply(self._api, controller.read_rights(manifests))
        objects.apply(self._api, render_secret(controller, self._plan.certificates_of(name)))
        token = objects.issue_token(self._api, controller.namespace, controller.account)
        self._write_kubeconfig(self.layout.kubeconfig(name), token)
        self.start(name)
        url, authority = self._webhooks_of(name)
        objects.apply(self._api, controller.read_webhooks(manifests, url=url, authority=authority))
        if controller.webhooks is not None:
            probe = controller.webhooks.probe
            self._wait(f"webhooks of {name}", lambda: probes.are_webhooks_called(self._api, probe))

    def _webhooks_of(self, name: str) -> tuple[str, bytes]:
        authority = self._plan.certificates_of(name) / self.layout.authority.name
        return webhook_url(self._plan.ports.of_controllers[name]), authority.read_bytes()

    def apply(self, things: list[dict[str, Any]]) -> None:
        """Create or change objects so that they are as given."""
        objects.apply(self._api, things)

    def write_account_kubeconfig(self, path: Path, namespace: str, account: str) -> None:
        """Write a kubeconfig by which its reader has exactly the rights of a service account."""
        self._write_kubeconfig(path, objects.issue_token(self._api, namespace, account), namespace)

    def write_account_token(self, path: Path, namespace: str, account: str) -> None:
        """Write the bare token of a service account, without address and authority."""
        write_private(path, objects.issue_token(self._api, namespace, account))

    def check(self) -> None:
        """Return quietly when every process runs that was not killed from here.

        Raises ProcessDied: one ended by itself.
        """
        for name, child in self._children.items():
            if name not in self._down and child.exit_code is not None:
                raise ProcessDied(self._describe(name, f"ended with code {child.exit_code}"))

    def end(self) -> None:
        """End every process and remove what was temporary; doing it again does nothing."""
        children = list(reversed(self._children.values()))
        for child in children:
            if child.exit_code is None:
                os.killpg(child.pid, signal.SIGCONT)
            child.ask_to_end()
        deadline = time.monotonic() + _END_SECONDS
        for child in children:
            child.end(max(0.02, deadline - time.monotonic()))
        self._children.clear()
        if hasattr(self, "_api"):
            self._api.close()
        if self._temporary is not None:
            self._temporary.remove()

    def _take_temporary(self) -> Path:
        remove_abandoned()
        self._temporary = OwnFolder()
        return self._temporary.path

    def _start_all(self) -> None:
        self.layout.create()
        shutil.rmtree(self.layout.data, ignore_errors=True)
        self._write_files()
        for name in (ETCD, API_SERVER):
            self.start(name)
            self._tell(name)
        self._api = open_api(self.kubeconfig, timeout_seconds=_ANSWER_SECONDS_MAX)
        # Before the controllers: the garbage collector looks for kinds when it starts, then only
        # every 30 s.
        chosen = [name for name in self._plan.installed if name != JOBSET or self._choices.jobset]
        self._define(*chosen)
        # These two and the further ones do not wait for each other.
        for name in (CONTROLLERS, SCHEDULER):
            self._children[name] = Child(self._plan.command(name), self.layout.log(name))
        for name in chosen:
            self._run(name)
            self._tell(name)
        for name in (CONTROLLERS, SCHEDULER):
            self._wait(name, lambda name=name: probes.is_ready(name, self._plan))  # type: ignore[misc]
            self._tell(name)
        self._wait("the default service account", lambda: probes.has_default_account(self._api))

    def _write_files(self) -> None:
        write_credentials(self.layout)
        for name, installed in self._plan.installed.items():
            if own := installed.controller.certificates:
                write_controller_credentials(
                    self._plan.certificates_of(name),
                    authority_name=own.authority_name,
                    host_names=(own.host_name,),
                )
        tokens = make_tokens()
        write_private(self.layout.tokens, render_token_table(tokens))
        for user, token in tokens.items():
            self._write_kubeconfig(self.layout.kubeconfig(user), token)
        self._plan.write_settings()

    def _write_kubeconfig(self, path: Path, token: str, namespace: str = "default") -> None:
        authority = self.layout.authority.read_bytes()
        write_private(path, render_kubeconfig(self.url, authority=authority, token=token, namespace=namespace))

    def _child(self, name: str) -> Child:
        if name not in self._children:
            raise KeyError(f"no process {name!r}; there are: {', '.join(self._children)}")
        return self._children[name]

    def _wait(self, what: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not ready():
            self.check()
            if self._stopping is not None and self._stopping.is_set():
                raise StartEnded(what)
            if time.monotonic() > deadline:
                text = f"was not ready within {_START_SECONDS_MAX:g} s"
                raise NotReady(self._describe(what, text) if what in self._children else f"{what} {text}")
            time.sleep(_POLL_SECONDS)

    def _describe(self, name: str, what: str) -> str:
        return f"the process {name!r} {what}; {describe_last_words(self.layout.log(name), _LAST_LINES)}"

    def _tell(self, name: str) -> None:
        seconds = round(time.monotonic() - self._started_at, 2)
        self._say("process ready", process=name, pid=self._children[name].pid, seconds_since_start=seconds)
