"""The local stack with the Go TPU Provisioner in place of the exporter and the functions."""

import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from benchmarks.field.google_edge import GoogleEdge
from demo.stack.commands import StackSettings
from demo.stack.layout import CLUSTER, LOCATION, PROJECT, ZONE, Layout
from demo.stack.ports import answers, wait_until
from demo.stack.stack import Stack
from standins.processes.child import Command

PROCESS = "go-provisioner"
_READY_SECONDS_MAX = 120.0


class GoStack(Stack):
    """A running stack whose provisioner is the program of the Go TPU Provisioner's own build."""

    def __init__(self, home: Path, settings: StackSettings, program: Path) -> None:
        super().__init__(home, settings)
        self._program = program
        self._edges = ExitStack()

    def __exit__(self, *given: object) -> None:
        super().__exit__(*given)
        self._edges.close()

    def _start_functions(self, ports: dict[str, int]) -> None:
        """Start none of ours."""

    def _start_exporter(self, port: int) -> None:
        edge = self._edges.enter_context(GoogleEdge(self.layout.home / "edge", self.addresses.gke_rest))
        self.supervisor.start(build_command(self.layout, self._program, edge.environment(), port))
        wait_until(
            "the Go program",
            lambda: answers(f"http://127.0.0.1:{port}/readyz"),
            seconds=_READY_SECONDS_MAX,
            check=self.check,
        )


def build_command(layout: Layout, program: Path, edge: Mapping[str, str], port: int) -> Command:
    """Return the command of the program: its own defaults, and where the local cloud is."""
    return Command(
        name=PROCESS,
        arguments=(str(program), "--metrics-bind-address=0", f"--health-probe-bind-address=127.0.0.1:{port}"),
        folder=layout.home,
        restartable=True,
        environment={
            "KUBECONFIG": str(layout.kubeconfig),
            "GCP_PROJECT_ID": PROJECT,
            "GCP_CLUSTER_LOCATION": LOCATION,
            "GCP_CLUSTER": CLUSTER,
            "GCP_ZONE": ZONE,
            **edge,
        },
    )


def describe_program(program: Path) -> str:
    """Return module and commit of a Go program, as `go version -m` reads them from its file."""
    answer = subprocess.run(
        ["go", "version", "-m", str(program)], capture_output=True, text=True, check=False, timeout=60
    )
    return read_build_information(answer.stdout)


def read_build_information(text: str) -> str:
    """Return module, commit and whether its files were changed, from `go version -m`."""
    rows = [line.split() for line in text.splitlines()]
    module = next((row[1] for row in rows if row[:1] == ["mod"]), "unknown module")
    settings = dict(row[1].split("=", 1) for row in rows if row[:1] == ["build"] and "=" in row[1])
    commit = settings.get("vcs.revision", "unknown commit")
    changed = ", with changed files" if settings.get("vcs.modified") == "true" else ""
    return f"{module} at {commit}{changed}"
