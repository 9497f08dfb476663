"""A project for the command ``conformance``: a fake GKE over REST, whose clock the test moves."""

from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from cli.access.operator_access import Deployment
from cli.conformance.probe_pools import Lab
from cli.conformance.report import Report
from shared.core.settings import Credentials
from shared.edges.gke import GkeNodePools
from shared.edges.google_account import GoogleAccount
from shared.edges.google_session import GoogleSession
from tests.builders import CLUSTER
from tests.cli.cli_world import a_deployment
from tests.contract.stand_ins import ask, stand_in

ZONE = "us-east5-b"
FAKE = ("standins.fakegke", "serve", "--project=p", "--location=us-east5", "--cluster=c", "--machines-everywhere")
_RUNS = count()


def serve_gke(folder: Path, *options: str) -> AbstractContextManager[dict[str, str]]:
    """Start a fake GKE with the cluster of the tests."""
    return stand_in(folder, *FAKE, *options)


class Project:
    """One fake project, and a lab in it."""

    def __init__(self, url: str, **own: Any) -> None:
        self.url, self.time, self.saves = url, 1_800_000_000.0, 0
        account = GoogleAccount(Credentials.ANONYMOUS)
        made = a_deployment(**own)
        ports = replace(made.ports, pools=GkeNodePools(url, account))
        self.deployment: Deployment = replace(made, ports=ports, gke=GoogleSession(url, account))
        self.report = Report(cluster=CLUSTER, run=f"feed{next(_RUNS)}")
        self.lab = self.open_lab()

    def open_lab(self, **options: Any) -> Lab:
        """Return a lab, as a new run of the command has it."""
        self.lab = Lab(
            deployment=self.deployment,
            cluster=CLUSTER,
            report=self.report,
            now=lambda: self.time,
            sleep=self.sleep,
            save=self.save,
            **options,
        )
        return self.lab

    def sleep(self, seconds: float) -> None:
        """Let time pass, here and in the fake."""
        self.time += seconds
        ask("POST", f"{self.url}/admin/clock", {"advance_seconds": seconds})

    def save(self) -> None:
        self.saves += 1

    def add_fault(self, **fault: Any) -> None:
        ask("POST", f"{self.url}/admin/faults", fault)

    def list_pools(self) -> list[str]:
        return [each["pool"] for each in ask("GET", f"{self.url}/admin/pools")["pools"]]

    def rest(self) -> None:
        """End what goes on, without faults."""
        ask("DELETE", f"{self.url}/admin/faults")
        self.sleep(5000)
