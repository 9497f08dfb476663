"""One running control plane: starts its processes in order, prepares the API, ends everything."""

import base64
import json
import secrets
import shutil
import signal
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import httpx

from standins.controlplane.building import Build, find_build
from standins.controlplane.certificates import write_credentials
from standins.controlplane.chart import ManifestBroken, read_folder, read_objects
from standins.controlplane.programs import (
    USERS,
    Controller,
    Layout,
    Probe,
    Product,
    Program,
    check_together,
    choose_products,
    fill_in,
    render_token_table,
)
from standins.kit.addresses import HOST, answers, draw_ports, write_private
from standins.kit.kubernetes import Discovery, apply, exists, open_api, render_kubeconfig
from standins.kit.processes import Command, NotReady, Processes, wait_until

Json = dict[str, Any]
ETCD, API_SERVER = "etcd", "kube-apiserver"
_BESIDE = ("kube-controller-manager", "kube-scheduler")
"""They do not wait for each other, nor for the further controllers."""
_ADMIN = "admin"
_NAMESPACED = ("Role", "RoleBinding", "ServiceAccount")
_TOKEN_SECONDS = 30 * 24 * 3600
_START_SECONDS_MAX = 180.0
"""Ten on a machine that does nothing else; minutes where several of these start beside a test
run."""
_ANSWER_SECONDS_MAX = 60.0
"""A definition of a thousand fields takes its time while the API server is still starting."""
_END_SECONDS = 1.5


class StartEnded(Exception):
    """The start was told to end before it was over."""


class ControlPlane:
    """A running control plane, used as a context manager.

    Entering raises BuildMissing when a program is not built, UnknownController when some of the
    controllers cannot be had together.

    Args:
        controllers: Names of further controllers.
        folder: For data, logs and keys; None takes a temporary one, which is removed at the end.
            Data of an earlier run in it is removed at the start.
        say: Told, in a few words, what has been started and how long it took.
        stopping: Once set, whatever waits for a process raises `StartEnded` instead.
    """

    def __init__(
        self,
        *controllers: str,
        folder: Path | None = None,
        say: Callable[..., None] = lambda _text, **_fields: None,
        stopping: threading.Event | None = None,
    ) -> None:
        self._controllers, self._say = controllers, say
        self._stopping = stopping or threading.Event()
        self._temporary = None if folder else Path(tempfile.mkdtemp(prefix="tpu-provisioner-controlplane-"))
        self.layout = Layout((folder or self._temporary or Path()).resolve())
        self._processes = Processes(self.layout.logs)
        self._api: httpx.Client | None = None

    def __enter__(self) -> Self:
        self._started_at = time.monotonic()
        try:
            products = choose_products(self._controllers)
            check_together(products)
            self._builds = {each.name: find_build(each) for each in products}
            self._ports = draw_ports_of(products)
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
        return f"https://{HOST}:{self._ports['kubernetes']['api']}"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator."""
        return self.layout.kubeconfig(_ADMIN)

    @property
    def api(self) -> httpx.Client:
        """A client with an administrator's rights, which raises what the server refuses."""
        if self._api is None:
            raise NotReady("the control plane has not started")
        return self._api

    @property
    def processes(self) -> dict[str, int]:
        """The process id of every process that runs, by its name."""
        return {each.name: each.pid for each in self._processes.states() if each.exit_code is None}

    def start(self, name: str) -> None:
        """Start one process, or one that was killed, and return once it is ready."""
        if name in self.processes:
            raise ValueError(f"process {name!r} runs already")
        self._processes.start(self._command(name))
        self._wait(name)

    def kill(self, name: str) -> None:
        """End one process at once, as a crash would; it stays down until `start`."""
        self._processes.kill(name)

    def pause(self, name: str) -> None:
        """Stop one process from running, as a machine that hangs would."""
        self._processes.find(name).signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a paused process go on."""
        self._processes.find(name).signal(signal.SIGCONT)

    def apply(self, things: list[Json]) -> None:
        """Create or change objects so that they are as given."""
        apply(self.api, things)

    def write_account_kubeconfig(self, path: Path, namespace: str, account: str) -> None:
        """Write a kubeconfig by which its reader has exactly the rights of a service account."""
        self._write_kubeconfig(path, self._issue_token(namespace, account), namespace)

    def write_account_token(self, path: Path, namespace: str, account: str) -> None:
        """Write the bare token of a service account, without address and authority."""
        write_private(path, self._issue_token(namespace, account))

    def write_accounts(self, folder: Path, things: Iterable[Json]) -> None:
        """Write kubeconfig and token of each service account of some things, and ``ca.crt``."""
        write_private(folder / self.layout.authority.name, self.layout.authority.read_text(encoding="utf-8"))
        for thing in things:
            if thing["kind"] == "ServiceAccount":
                name, namespace = thing["metadata"]["name"], thing["metadata"]["namespace"]
                self.write_account_kubeconfig(folder / f"{name}.kubeconfig", namespace, name)
                self.write_account_token(folder / f"{name}.token", namespace, name)

    def check(self) -> None:
        """Return quietly when every process runs that was not killed from here.

        Raises ProcessDied: one ended by itself.
        """
        self._processes.check()

    def end(self) -> None:
        """End every process and remove what was temporary; doing it again does nothing."""
        self._processes.end_all(_END_SECONDS)
        if self._api is not None:
            self._api.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _start_all(self) -> None:
        self.layout.create()
        shutil.rmtree(self.layout.home / "etcd", ignore_errors=True)
        write_credentials(self.layout.keys)
        tokens = {user: secrets.token_urlsafe(24) for user in USERS}
        write_private(self.layout.home / "tokens.csv", render_token_table(tokens))
        for user, token in tokens.items():
            self._write_kubeconfig(self.layout.kubeconfig(user), token)
        for name in (ETCD, API_SERVER):
            self.start(name)
        self._api = open_api(self.kubeconfig, timeout_seconds=_ANSWER_SECONDS_MAX)
        # Before the controllers: the garbage collector looks for kinds when it starts, then only
        # every 30 s.
        chosen = [name for name, build in self._builds.items() if build.product.controller]
        self._define(chosen)
        for name in _BESIDE:
            self._processes.start(self._command(name))
        for name in chosen:
            self._install(name)
        for name in _BESIDE:
            self._wait(name)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._wait_for("the default service account", lambda: exists(self.api, account))

    def _find(self, name: str) -> tuple[Build, Program]:
        """Return the build that has a program. Raises KeyError: none has."""
        for build in self._builds.values():
            if name in build.product.programs:
                return build, build.product.programs[name]
        valid = ", ".join(each for build in self._builds.values() for each in build.product.programs)
        raise KeyError(f"no process {name!r}; there are: {valid}")

    def _controller(self, name: str) -> Controller:
        controller = self._builds[name].product.controller
        if controller is None:
            raise ValueError(f"{name}: is no controller")
        return controller

    def _names(self, name: str) -> dict[str, Any]:
        """Return what the arguments, the settings and the address of a program are filled with."""
        build, _ = self._find(name)
        files = {"folder": self.layout.home, "keys": self.layout.keys, "settings": self._settings_of(name)}
        ports = self._ports[ETCD] | self._ports[build.product.name]
        return {each: str(path) for each, path in files.items()} | ports

    def _settings_of(self, name: str) -> Path:
        return self.layout.home / f"{name}.json"

    def _command(self, name: str) -> Command:
        """Return the command of a program, after writing its settings."""
        build, program = self._find(name)
        names = self._names(name)
        if program.settings is not None:
            self._settings_of(name).write_text(json.dumps(fill_in(program.settings, names)))
        return Command(
            name=name,
            arguments=(str(build.binary(name)), *fill_in(program.arguments, names)),
            folder=self.layout.home,
            environment={"KUBECONFIG": str(self.layout.kubeconfig(name))},
        )

    def _define(self, names: Iterable[str]) -> None:
        definitions = []
        for name in names:
            controller = self._controller(name)
            mine = read_folder(self._builds[name].manifests / controller.definitions)
            for each in mine:
                if each["metadata"]["name"] in controller.converts:
                    each["spec"]["conversion"] = {
                        "strategy": "Webhook",
                        "webhook": {
                            "clientConfig": self._client(name, "/convert"),
                            "conversionReviewVersions": ["v1"],
                        },
                    }
            self.apply(mine)
            definitions += mine
        self._wait_for("the definitions", lambda: are_served(self.api, definitions))

    def _install(self, name: str) -> None:
        """Start a controller with the rights and webhooks of its release."""
        controller, manifests = self._controller(name), self._builds[name].manifests
        self.apply([*read_rights(controller, manifests), *self._read_secret(controller)])
        token = self._issue_token(controller.namespace, controller.account)
        self._write_kubeconfig(self.layout.kubeconfig(name), token)
        self.start(name)
        self.apply(read_webhooks(controller, manifests, lambda path: self._client(name, path)))
        if controller.probe is not None:
            probe = controller.probe
            self._wait_for(f"the webhooks of {name}", lambda: are_webhooks_called(self.api, probe))

    def _client(self, name: str, path: str) -> Json:
        """Return how the API server calls a path of a controller's webhook server."""
        authority = base64.b64encode(self.layout.authority.read_bytes()).decode()
        return {"url": f"https://{HOST}:{self._ports[name]['webhooks']}{path}", "caBundle": authority}

    def _read_secret(self, controller: Controller) -> list[Json]:
        if not controller.secret:
            return []
        files = ("ca.crt", "ca.key", "tls.crt", "tls.key")
        data = {name: base64.b64encode((self.layout.keys / name).read_bytes()).decode() for name in files}
        metadata = {"name": controller.secret, "namespace": controller.namespace}
        return [{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}]

    def _issue_token(self, namespace: str, account: str) -> str:
        """Return a new token of a service account.

        Source:
        https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/.
        """
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        spec = {"expirationSeconds": _TOKEN_SECONDS}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self.api.post(path, json=request).json()["status"]["token"])

    def _write_kubeconfig(self, path: Path, token: str, namespace: str = "default") -> None:
        authority = self.layout.authority.read_bytes()
        write_private(path, render_kubeconfig(self.url, authority=authority, token=token, namespace=namespace))

    def _wait(self, name: str) -> None:
        """Return once a process says that it is ready."""
        address = fill_in(self._find(name)[1].ready, self._names(name))
        # Controllers and scheduler make their own certificates at each start: nothing there could
        # be verified.
        verify = ssl.create_default_context(cafile=str(self.layout.authority)) if name == API_SERVER else False
        try:
            self._wait_for(name, lambda: answers(address, verify))
        except NotReady as error:
            raise NotReady(self._processes.find(name).describe_end("was not ready in time")) from error
        seconds = round(time.monotonic() - self._started_at, 2)
        self._say("process ready", process=name, pid=self.processes.get(name), seconds_since_start=seconds)

    def _wait_for(self, what: str, ready: Callable[[], bool]) -> None:
        def check() -> None:
            self.check()
            if self._stopping.is_set():
                raise StartEnded(what)

        wait_until(ready, what=what, seconds=_START_SECONDS_MAX, check=check)


def draw_ports_of(products: Iterable[Product]) -> dict[str, dict[str, int]]:
    """Return free ports, all different, by product and name."""
    names = [(each.name, port) for each in products for one in each.programs.values() for port in one.ports]
    ports: dict[str, dict[str, int]] = {}
    for (product, name), port in zip(names, draw_ports(len(names)), strict=True):
        ports.setdefault(product, {})[name] = port
    return ports


def read_rights(controller: Controller, manifests: Path) -> list[Json]:
    """Return namespace, account, roles and bindings, named as in the controller's release."""
    things = read_folder(manifests / controller.rights)
    for thing in things:
        thing["metadata"]["name"] = controller.prefix + thing["metadata"]["name"]
        if thing["kind"] in _NAMESPACED:
            thing["metadata"]["namespace"] = controller.namespace
        if "roleRef" in thing:
            thing["roleRef"]["name"] = controller.prefix + thing["roleRef"]["name"]
        for subject in thing.get("subjects", ()):
            subject |= {"name": controller.prefix + subject["name"], "namespace": controller.namespace}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": controller.namespace}}, *things]


def read_webhooks(controller: Controller, manifests: Path, client: Callable[[str], Json]) -> list[Json]:
    """Return the webhook configurations of a controller, if it has any, to be called by `client`.

    Raises ManifestBroken: a webhook that is to be patched is missing, or has no service.
    """
    if not controller.webhooks:
        return []
    path, missing = manifests / controller.webhooks / "manifests.yaml", set(controller.patches)
    configurations = read_objects(path)
    for configuration in configurations:
        configuration["metadata"]["name"] = controller.prefix + configuration["metadata"]["name"]
        for webhook in configuration["webhooks"]:
            missing.discard(webhook["name"])
            service = webhook["clientConfig"].get("service")
            if service is None:
                raise ManifestBroken(f"webhook {webhook['name']}: clientConfig has no service")
            webhook["clientConfig"] = client(service["path"])
            webhook.update(controller.patches.get(webhook["name"], {}))
    if missing:
        raise ManifestBroken(f"{path}: no webhook named {', '.join(sorted(missing))}")
    return configurations


def are_served(api: httpx.Client, definitions: list[Json]) -> bool:
    """Return whether objects of these CustomResourceDefinitions are served by now.

    Discovery says so in a few lines
    (https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api); the definitions
    themselves are up to a megabyte each.
    """
    discovery = Discovery(api)
    return all(
        discovery.find_list(
            {
                "apiVersion": f"{each['spec']['group']}/{version['name']}",
                "kind": each["spec"]["names"]["kind"],
                "metadata": {},
            }
        )
        for each in definitions
        for version in each["spec"]["versions"]
        if version["served"]
    )


def are_webhooks_called(api: httpx.Client, probe: Probe) -> bool:
    """Return whether the API server asks a controller's webhooks by now.

    The server learns of a webhook configuration a moment after storing it.
    """
    try:
        answer = api.post(Discovery(api).find_list(probe.body), params={"dryRun": "All"}, json=probe.body).json()
    except httpx.HTTPError:
        return False
    for name in probe.filled:
        answer = answer.get(name) or {}
    return bool(answer)
