"""The command line of every process of the control plane.

Pure functions of build, layout, ports and choices.

Flags: https://kubernetes.io/docs/reference/command-line-tools-reference/ and
https://etcd.io/docs/v3.6/op-guide/configuration/. Every listener is on 127.0.0.1.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from standins.controlplane import certificates
from standins.controlplane.cache import Build
from standins.controlplane.controllers import Controller, Setting
from standins.controlplane.layout import Layout, Ports
from standins.kit.addresses import HOST
from standins.kit.processes import Command

ETCD, API_SERVER = "etcd", "kube-apiserver"
CONTROLLERS, SCHEDULER, JOBSET = "kube-controller-manager", "kube-scheduler", "jobset"
ISSUER = "https://kubernetes.default.svc"
_NODE_GRACE = "8760h"
"""Nodes here have no kubelet that reports; a year of silence is not yet a failure."""
_CLIENT_RATE = ("--kube-api-qps=300", "--kube-api-burst=600")
"""The defaults (20 and 30) would stretch a burst of pods over minutes; hosted control planes raise
them too."""

_MUTATING_POLICIES = (
    "--feature-gates=MutatingAdmissionPolicy=true",
    "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
)
"""https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/."""

_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # One line per request, at its arrival: a watch that goes on counts as well as one that has
    # ended.
    "omitStages": ["ResponseStarted", "ResponseComplete", "Panic"],
    "rules": [{"level": "Metadata", "verbs": ["list", "watch"]}, {"level": "None"}],
}
"""Format: https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/#audit-policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a person may choose about a control plane."""

    api_port: int = 0
    compaction_seconds: int = 300
    """How long old resource versions stay readable; Kubernetes' default is five minutes."""
    scheduler_backoff_seconds: int = 2
    """The longest pause before a pod is tried again; Kubernetes' default is ten."""
    jobset: bool = True
    """Whether JobSet is installed at the start."""
    controllers: tuple[str, ...] = ()
    """Further controllers that are installed at the start, by name; each is built before (`make
    controllers`)."""
    audit: bool = False
    """Whether the API server writes every list and watch, with who asked, into
    `Layout.audit_log`."""
    mutating_policies: bool = False
    """Whether MutatingAdmissionPolicy is served, as v1beta1; it is on by default from Kubernetes
    1.36, as v1."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A controller and the build that has its program and manifests."""

    controller: Controller
    build: Build

    @property
    def program(self) -> Path:
        """The program."""
        return self.build.binary(self.controller.name)

    @property
    def manifests(self) -> Path:
        """The folder of its module's manifests."""
        return self.build.manifests(self.controller.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that the command lines are made of."""

    build: Build
    layout: Layout
    ports: Ports
    choices: Choices
    installed: Mapping[str, Installed]
    """JobSet and the like, by the name of their process."""

    @property
    def url(self) -> str:
        """Where the Kubernetes API is."""
        return f"https://{HOST}:{self.ports.api}"

    def command(self, name: str) -> Command:
        """Return the command of one process.

        Raises KeyError: there is no such process; the text names those that there are.
        """
        if name in self.installed:
            return self._controller_command(name)
        if name not in _ARGUMENTS:
            raise KeyError(f"no process {name!r}; there are: {', '.join((*_ARGUMENTS, *self.installed))}")
        return Command(
            name=name, arguments=(str(self.build.binary(name)), *_ARGUMENTS[name](self)), folder=self.layout.home
        )

    def write_settings(self) -> None:
        """Write the files that scheduler, API server and controllers are configured by."""
        self.layout.scheduler_settings.write_text(json.dumps(_scheduler_settings(self)))
        self.layout.audit_policy.write_text(json.dumps(_AUDIT_POLICY))
        for name, installed in self.installed.items():
            if installed.controller.settings is not None:
                settings = installed.controller.settings(self._setting(name))
                self.layout.settings(name).write_text(json.dumps(settings))

    def certificates_of(self, name: str) -> Path:
        """Return the folder of the certificates by which a controller's webhooks are served."""
        own = self.installed[name].controller.certificates
        return self.layout.own_certificates(name) if own else self.layout.certificates

    def _controller_command(self, name: str) -> Command:
        installed = self.installed[name]
        return Command(
            name=name,
            arguments=(str(installed.program), *installed.controller.arguments(self._setting(name))),
            folder=self.layout.home,
            environment={"KUBECONFIG": str(self.layout.kubeconfig(name))},
        )

    def _setting(self, name: str) -> Setting:
        return Setting(
            ports=self.ports.of_controllers[name],
            certificates=self.certificates_of(name),
            settings_file=self.layout.settings(name),
        )


def _etcd(plan: Plan) -> tuple[str, ...]:
    clients, peers = f"http://{HOST}:{plan.ports.etcd}", f"http://{HOST}:{plan.ports.etcd_peers}"
    return (
        "--name=local",
        f"--data-dir={plan.layout.data}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=local={peers}",
        # Nothing here has to survive a power cut, and waiting for the disk is most of a small
        # write's time.
        "--unsafe-no-fsync",
        # The only member still waits for its own election; with the default that is a second of
        # every start.
        "--election-timeout=500",
    )


def _api_server(plan: Plan) -> tuple[str, ...]:
    layout, choices = plan.layout, plan.choices
    return (
        f"--etcd-servers=http://{HOST}:{plan.ports.etcd}",
        f"--etcd-compaction-interval={plan.choices.compaction_seconds}s",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={plan.ports.api}",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/20",
        f"--tls-cert-file={layout.serving_certificate}",
        f"--tls-private-key-file={layout.serving_key}",
        f"--cert-dir={layout.certificates}",
        f"--token-auth-file={layout.tokens}",
        f"--service-account-key-file={layout.signing_public_key}",
        f"--service-account-signing-key-file={layout.signing_key}",
        f"--service-account-issuer={ISSUER}",
        "--authorization-mode=RBAC",
        # TPU manifests in the wild ask for privileged pods (ours does); the default refuses every
        # Job of theirs.
        "--allow-privileged=true",
        # As on GKE: a pod that asks for google.com/tpu tolerates the taint of that name.
        "--enable-admission-plugins=ExtendedResourceToleration",
        *((f"--audit-policy-file={layout.audit_policy}", f"--audit-log-path={layout.audit_log}") * choices.audit),
        *(_MUTATING_POLICIES * choices.mutating_policies),
    )


def _controllers(plan: Plan) -> tuple[str, ...]:
    layout = plan.layout
    return (
        f"--kubeconfig={layout.kubeconfig(certificates.CONTROLLERS)}",
        f"--bind-address={HOST}",
        f"--secure-port={plan.ports.controllers}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.signing_key}",
        f"--root-ca-file={layout.authority}",
        f"--node-monitor-grace-period={_NODE_GRACE}",
        *_CLIENT_RATE,
    )


def _scheduler(plan: Plan) -> tuple[str, ...]:
    return (
        f"--config={plan.layout.scheduler_settings}",
        f"--bind-address={HOST}",
        f"--secure-port={plan.ports.scheduler}",
    )


_ARGUMENTS: dict[str, Callable[[Plan], tuple[str, ...]]] = {
    ETCD: _etcd,
    API_SERVER: _api_server,
    CONTROLLERS: _controllers,
    SCHEDULER: _scheduler,
}


def _scheduler_settings(plan: Plan) -> dict[str, object]:
    """Source: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/."""
    longest = plan.choices.scheduler_backoff_seconds
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {
            "kubeconfig": str(plan.layout.kubeconfig(certificates.SCHEDULER)),
            "qps": 300,
            "burst": 600,
        },
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": longest,
    }
