"""One run of ``plan``: reads the manifests and what is asked of a cluster, and prints the plan."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from cli.access.cli_settings import read_plan_settings
from cli.access.deployment_choice import choose_environment, open_deployment
from cli.exit_codes import ExitCode
from cli.planning.differences import compare
from cli.planning.file_disks import FileDisks
from cli.planning.live_facts import Disks, Namespaces
from cli.planning.manifests import read_manifests
from cli.planning.plan import plan, summarize
from cli.planning.plan_table import print_plan
from cli.printing import open_console, print_data
from shared.settings import name_variable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cli.planning.manifests import Found
    from cli.planning.plan import PlannedNeed
    from cli.printing import Format
    from shared.engine.outside import Ports


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asked for."""

    files: tuple[str, ...]
    cluster: str = ""
    zone: str = ""
    recursive: bool = False
    diff: bool = False
    """Compare with the pools that run."""
    prices: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What came of it."""

    found: Found
    needs: list[PlannedNeed]
    assumed: list[str]
    """What was not read of a cluster."""
    changes: list[str]
    """What differs from the pools that run."""

    @property
    def code(self) -> ExitCode:
        """Return the exit code that it means."""
        if self.found.problems:
            return ExitCode.BAD_INPUT
        return ExitCode.FINDINGS if any(each.refused for each in self.needs) else ExitCode.FINE

    def as_data(self, *, prices: bool) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "needs": [each.as_data(prices=prices) for each in self.needs],
            "summary": summarize(self.needs, unserved=self.found.unserved),
            "not_planned": self.found.others,
            "unreadable": [str(each) for each in self.found.problems],
            "assumed": self.assumed,
            "diff": self.changes,
        }


def run_plan(request: Request) -> Planned:
    """Return the plan for some files."""
    found = read_manifests(request.files, recursive=request.recursive)
    environ = choose_environment(always=request.diff)
    settings = read_plan_settings(environ, cluster=request.cluster, zone=request.zone)
    name, ports = next(iter(settings.clusters)), _open_ports(request, environ)
    live = ports.clusters[name] if ports else None
    namespaces, disks = Namespaces(live), Disks(live, files=FileDisks(found.defined))
    needs = plan(found.workloads, name, settings, namespaces, disks)
    assumed = [each for each in (namespaces.assumption, disks.assumption) if each] if needs else []
    changes = compare(needs, name, ports) if ports and request.diff else []
    return Planned(found=found, needs=needs, assumed=assumed, changes=changes)


def _open_ports(request: Request, environ: Mapping[str, str]) -> Ports | None:
    """Return the ports of the cluster that is asked; None if no option says that one is."""
    asks = request.cluster or request.diff or environ is not os.environ
    if name_variable("clusters") not in environ or not asks:
        return None
    return open_deployment(environ).ports


def show_plan(planned: Planned, form: Format, *, prices: bool) -> None:
    """Print a plan, and what is wrong with documents on standard error."""
    if form.for_programs:
        print_data(planned.as_data(prices=prices), form)
    elif planned.needs or planned.found.others or not planned.found.problems:
        lines = [*planned.assumed, *planned.changes]
        print_plan(open_console(), planned.needs, planned.found, prices=prices, lines=lines)
    for each in planned.found.problems:
        typer.echo(f"error: {each}", err=True)
