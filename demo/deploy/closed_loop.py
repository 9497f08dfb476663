"""Deploys with real Terraform, starts what was deployed, and destroys it: each step of the whole.

Terraform's calls go to the mock of Google Cloud, but for Pub/Sub's, which go to the broker. What it
has made there is what runs: subscriptions push, the job ticks, functions start from the uploaded
archive with the variables that Terraform has set.
"""

import contextlib
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

import httpx

from demo.deploy.cloud_project import CloudProject, root_inputs
from demo.deploy.deployed_commands import exporter_command, function_command, list_endpoint_hosts, read_exporter
from demo.deploy.exporter_image import make_image
from demo.deploy.front_door import FrontDoor, read_keys
from demo.deploy.google_tokens import GoogleTokens
from demo.deploy.metadata_server import serve_metadata
from demo.deploy.real_cluster import (
    are_exporters_ready,
    describe_exporters,
    exporter_ports,
    install_manifests,
    list_refusals,
)
from demo.deploy.scheduler import Scheduler
from demo.deploy.terraform_root import TerraformRoot
from demo.stack import commands
from demo.stack.clusters import ClusterKind
from demo.stack.commands import StackSettings
from demo.stack.cpu_node import register_cpu_node
from demo.stack.layout import CLUSTER, FUNCTIONS, LOCATION, PROJECT, PROJECT_ROOT, ZONE, Layout
from demo.stack.own_namespace import create_own_namespace
from demo.stack.readiness import NotReady, answers, listens, read_ports
from demo.stack.supervisor import Supervisor
from standins.googlecloud.mock_program import MockCloud, name_service_host
from standins.processes.child import Command
from standins.processes.free_ports import HOST, draw_ports
from standins.processes.local_answers import LocalAnswers

NAME = "tpu-provisioner"
_BUILD = PROJECT_ROOT / "infra" / "build"
_IMAGE = f"exporter@sha256:{'0' * 64}"
"""A placeholder: the exporter runs from this folder, not from an image."""
_SETTINGS = {"grace_seconds": "5", "drain_seconds_max": "20", "creation_seconds_max": "120"}
"""Waiting times of the functions, shortened as the stand-ins' clock is."""


class Contradiction(Exception):
    """What was deployed cannot work; the text has a line for each reason."""


class ClosedLoop:
    """A whole system from one apply, used as a context manager.

    Args:
        home: The folder for everything that it writes.
        program: The mock of Google Cloud.
        roots: The folder with the Terraform roots.
        say: Told what is done.
        speed: Virtual seconds per real second, for GKE and the kubelets.
        cluster: Which Kubernetes the deployment serves. Only the real one knows accounts.
    """

    def __init__(
        self,
        home: Path,
        *,
        program: str,
        roots: Path,
        say: Callable[[str], None],
        speed: float = 30.0,
        cluster: ClusterKind = ClusterKind.EMBEDDED,
    ) -> None:
        self.layout = Layout(home.resolve())
        self._program, self._roots, self._say = program, roots, say
        self._settings = StackSettings(speed=speed, cluster=cluster)
        self._is_real = cluster is ClusterKind.REAL
        self.tokens = GoogleTokens()
        self._supervisor = Supervisor(self.layout)
        self._parts = contextlib.ExitStack()
        proxy, edge, *ports = draw_ports(2 + 2 * len(FUNCTIONS) + 1)
        self._door_ports = dict(zip(FUNCTIONS, ports, strict=False))
        self._function_ports = dict(zip(FUNCTIONS, ports[len(FUNCTIONS) :], strict=False))
        self._exporter_port, self._edge_port, self._proxy_port = ports[-1], edge, proxy
        self.doors: dict[str, FrontDoor] = {}
        self.addresses: dict[str, str] = {}
        """Of the broker and of the fake GKE: ``pubsub``, ``pubsub_grpc``, ``gke``."""

    def __enter__(self) -> Self:
        self.layout.create()
        self._supervisor.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()
        self._supervisor.end_all()
        self.layout.drop_control_plane()

    def open_project(self) -> None:
        """Start cluster, Pub/Sub and the mock; its project has a cluster, as a user's has."""
        self._say(f"starting a cluster ({self._settings.cluster}), Pub/Sub and the mock of Google Cloud")
        self._supervisor.start(self._cluster_command())
        self._supervisor.start(commands.pubsub(self.layout))
        broker = self._supervisor.wait_for_ports("pubsub")
        self.addresses |= {"pubsub": broker["rest"], "pubsub_grpc": broker["grpc"]}
        doors = {name_service_host(f"{NAME}-{key}", PROJECT, LOCATION): self._door_url(key) for key in FUNCTIONS}
        forwards = {"pubsub.googleapis.com": broker["rest"], **doors}
        self._mock = self._start_mock("google-cloud", self._proxy_port, forwards)
        self._project = self._parts.enter_context(CloudProject(self._mock, LOCATION, CLUSTER))
        self._project.create_cluster()

    def deploy(self) -> None:
        """Apply the root for a cluster that is there, and hold the parts against each other.

        Raises:
            TerraformFailed: the apply failed.
            Contradiction: the parts do not agree.
        """
        self._say("packing the functions, and terraform apply (about half a minute)")
        archive = self.layout.home / "functions.zip"
        _run_script("stage_functions.py", "--zip", str(archive))
        inputs = root_inputs(PROJECT, LOCATION, ZONE, CLUSTER, str(archive)) | {"settings": _SETTINGS}
        self._root = TerraformRoot(
            self._roots,
            "provisioner",
            self.layout.home / "terraform",
            clients=self._mock.describe_clients(),
            inputs=inputs,
        )
        self._root.apply()
        self.deployment = self._project.read_deployment()
        count = len(self._root.list_resources())
        self._say(f"{count} resources are there, among them {len(self.deployment.functions)} functions")
        if problems := self.deployment.find_problems():
            raise Contradiction("\n  - ".join(problems))

    def start(self) -> None:
        """Start what was deployed, as it was deployed.

        Raises:
            NotReady, ProcessDied: a part does not start.
        """
        self._say("starting what was deployed: the functions from the uploaded archive, the job, the exporter")
        (sink,) = self.deployment.sinks
        topic = sink["destination"].removeprefix("pubsub.googleapis.com/")
        self._supervisor.wait_for_ports("cluster")
        gke = commands.fake_gke(
            self.layout, self._settings, pubsub_rest=self.addresses["pubsub"], operations_topic=topic
        )
        self._supervisor.start(gke)
        self._supervisor.start(self._kubelet_command())
        register_cpu_node(self.layout.kubeconfig)
        self.addresses["gke"] = self._supervisor.wait_for_ports("fakegke")["rest"]
        autoscaler = commands.autoscaler(self.layout, self._settings, gke_rest=self.addresses["gke"])
        self._supervisor.start(autoscaler)
        rendered = self._render_exporter()
        if self._is_real:
            install_manifests(self.layout, rendered)
        else:
            create_own_namespace(self.layout.kubeconfig)
        self._start_functions()
        self._start_exporter(rendered)

    def check(self) -> None:
        """Raise `ProcessDied` when a process is gone for good."""
        self._supervisor.check()

    def list_problems(self) -> list[str]:
        """Return what was refused until now: by functions' doors, to the job, by the cluster."""
        refused = [f"{each.name}: {why}" for each in self.doors.values() for why in dict.fromkeys(each.refused)]
        refused += [f"the job: {each}" for each in dict.fromkeys(self._scheduler.failures)]
        return refused + [f"the cluster: {each}" for each in list_refusals(self._edge.journal, self._hosts)]

    def let_people_in(self) -> MockCloud:
        """Start what gcloud of a person asks: the broker, and the logs as Cloud Logging shows them.

        Raises:
            NotReady, ProcessDied: a part does not start.
        """
        self._supervisor.start(commands.logging(self.layout))
        hosts = {"logging.googleapis.com": self._supervisor.wait_for_ports("logging")["rest"]}
        hosts["pubsub.googleapis.com"] = self.addresses["pubsub"]
        (port,) = draw_ports(1)
        return self._start_mock("edge-of-people", port, hosts)

    def destroy(self) -> list[str]:
        """Destroy the deployment; return what is left of it.

        Raises TerraformFailed: the destroy failed.
        """
        self._say("terraform destroy (about half a minute)")
        self._root.destroy()
        left = self._project.read_deployment()
        problems = [f"left in Terraform's state: {each}" for each in self._root.list_resources()]
        problems += [f"left: {each['name']}" for each in (*left.functions, *left.jobs, *left.subscriptions)]
        problems += [f"left: a grant on {name}" for name, each in left.policies.items() if each.get("bindings")]
        topics = httpx.get(f"{self.addresses['pubsub']}/v1/projects/{PROJECT}/topics", trust_env=False)
        problems += [f"left: {each['name']}" for each in topics.raise_for_status().json().get("topics", [])]
        return problems

    def _start_functions(self) -> None:
        deployed = self.deployment.list_functions()
        number = self.deployment.number
        kubernetes = read_ports(self.layout.ports_file("cluster"))["url"]
        self._hosts = {host for each in deployed for host in list_endpoint_hosts(each, number)}
        hosts = dict.fromkeys(("container.googleapis.com", "compute.googleapis.com"), self.addresses["gke"])
        hosts |= dict.fromkeys(self._hosts, kubernetes)
        hosts["pubsub.googleapis.com"] = self.addresses["pubsub"]
        trusts = self.layout.authority if self._is_real else None
        self._edge = self._start_mock("edge-of-the-functions", self._edge_port, hosts, trusts)
        doors = {each.address: self._door_url(each.entry_point) for each in deployed}
        (job,) = self.deployment.list_jobs()
        self._scheduler = Scheduler(job, doors)
        for each in deployed:
            source = self.layout.bundle / each.entry_point
            uploaded = self._mock.ask(f"/objects/{each.bucket}/{each.archive}").content
            with zipfile.ZipFile(io.BytesIO(uploaded)) as archive:
                archive.extractall(source)
            issue = partial(self.tokens.issue, each.account, self._project.find_number(each.account))
            metadata = self._parts.enter_context(serve_metadata(each.account, PROJECT, issue))
            port = self._function_ports[each.entry_point]
            command = function_command(
                each,
                source,
                port=port,
                number=number,
                metadata=metadata.address,
                clients=self._edge.describe_clients(),
            )
            self._supervisor.start(command)
            door = FrontDoor(
                each.name,
                audiences={each.address, doors[each.address]},
                invokers=self.deployment.list_invokers(each.service),
                behind=f"http://{HOST}:{port}",
                find_keys=self._find_keys,
            )
            self.doors[each.entry_point] = door
            self._parts.enter_context(LocalAnswers(door.answer, self._door_ports[each.entry_point]))
        for each in deployed:
            port = self._function_ports[each.entry_point]
            self._supervisor.wait_for(f"the function {each.name}", lambda port=port: listens(port))  # type: ignore[misc]
        self._parts.enter_context(self._scheduler)

    def _render_exporter(self) -> Path:
        outputs = self.layout.home / "outputs.json"
        outputs.write_text(json.dumps(self._root.read_outputs()))
        rendered = self.layout.home / "exporter"
        words = ("--outputs", str(outputs), "--cluster", "demo", "--image", _IMAGE, "--folder", str(rendered))
        _run_script("render_exporter.py", *words)
        return rendered

    def _start_exporter(self, rendered: Path) -> None:
        account, variables = read_exporter(rendered)
        pool = f"projects/{self.deployment.number}/locations/global/workloadIdentityPools/{PROJECT}.svc.id.goog"
        problems = self.deployment.check_publisher(
            variables["TPU_PROVISIONER_TOPIC"],
            f"principal://iam.googleapis.com/{pool}/subject/{account}",
            "the exporter",
        )
        if problems:
            raise Contradiction("\n".join(problems))
        if self._is_real:  # its pods are there since the manifests are
            self._wait_for_pods()
            return
        command = exporter_command(
            variables,
            kubeconfig=self.layout.kubeconfig,
            port=self._exporter_port,
            pubsub_grpc=self.addresses["pubsub_grpc"],
        )
        self._supervisor.start(command)
        self._supervisor.wait_for("the exporter", lambda: answers(f"http://{HOST}:{self._exporter_port}/readyz"))

    def _wait_for_pods(self) -> None:
        try:
            self._supervisor.wait_for("the exporter", lambda: are_exporters_ready(self.layout))
        except NotReady as error:
            raise NotReady(f"{error}; {describe_exporters(self.layout)}") from error

    def _find_keys(self) -> dict[str, bytes]:
        broker = httpx.get(f"{self.addresses['pubsub']}/certs", timeout=10, trust_env=False)
        return read_keys(broker.raise_for_status().json()) | read_keys(self._scheduler.jwks)

    def _door_url(self, key: str) -> str:
        return f"http://{HOST}:{self._door_ports[key]}"

    def _cluster_command(self) -> Command:
        if not self._is_real:
            return commands.cluster(self.layout, self._settings)
        reviews = self._parts.enter_context(LocalAnswers(self.tokens.review))
        return commands.control_plane(self.layout, f"--token-webhook={reviews.url}")

    def _kubelet_command(self) -> Command:
        if not self._is_real:
            return commands.kubelet(self.layout, self._settings)
        ports, broker = exporter_ports(self.layout), self.addresses["pubsub_grpc"]
        image = make_image(self.layout.home / "exporter-image", ports=ports, pubsub_grpc=broker)
        return commands.kubelet(self.layout, replace(self._settings, images=(f"{_IMAGE}={image}",)))

    def _start_mock(self, name: str, port: int, forwards: dict[str, str], trusts: Path | None = None) -> MockCloud:
        mock = MockCloud(
            folder=self.layout.home, name=name, port=port, project=PROJECT, forwards=forwards, trusts=trusts
        )
        self._supervisor.start(mock.command(self._program))
        self._supervisor.wait_for(f"the process {name!r}", mock.is_ready)
        return mock


def _run_script(script: str, *words: str) -> None:
    command = [sys.executable, str(_BUILD / script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReady(f"infra/build/{script} failed: {done.stderr.strip()}")
