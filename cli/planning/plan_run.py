"""One run of ``plan``: reads the manifests and what is asked of a cluster, and prints the plan."""

from __future__ import annotations

import dataclasses
import os
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from cli.access.cli_settings import read_plan_settings
from cli.access.deployment_choice import choose_environment, open_deployment
from cli.exit_codes import ExitCode
from cli.planning.facts import Disks, FileDisks, Namespaces
from cli.planning.makers import GENERATED
from cli.planning.manifests import read_manifests
from cli.planning.plan import plan, summarize
from cli.planning.plan_table import print_plan
from cli.printing import open_console, print_data
from shared.engine.budget import Key
from shared.engine.look import Source
from shared.engine.reads import take_look
from shared.plan.counting import Census
from shared.settings import name_variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cli.planning.manifests import Found
    from cli.planning.plan import PlannedNeed
    from cli.printing import Format
    from shared.engine.outside import Ports
    from shared.plan.scene import Scene

_MADE = "([bcdfghjklmnpqrstvwxz2456789]{5}|[0-9]{7,})"
"""What Kubernetes and KubeRay append to a generated name, or a CronJob to the name of its Job:
https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apimachinery/pkg/util/rand/rand.go."""


def compare(planned: Sequence[PlannedNeed], cluster: str, ports: Ports) -> list[str]:
    """Return a line for what the plan adds, keeps, or no longer needs of each workload's pools.

    A workload whose name is generated is compared with each live one that may have been made of the
    same manifest.
    """
    owners = {pool.owner.key for pool in ports.pools.list(cluster) if pool.owner}
    lines: list[str] = []
    for key in dict.fromkeys(each.key for each in planned):
        needs = tuple(each.need for each in planned if each.key == key)
        for name in _find_live(key, owners) or [key.name]:
            live = Key(cluster, key.kind, key.namespace, name)
            scene = take_look(live, ports, Source()).scene
            lines += _compare(dataclasses.replace(scene, needs=needs), f"{key.namespace}/{name}")
    return lines


def _find_live(key: Key, owners: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return the names of the live workloads that may be a planned one."""
    prefix = key.name.removesuffix(GENERATED)
    pattern = re.compile(re.escape(prefix) + (_MADE if prefix != key.name else ""))
    alike = (owner for owner in owners if owner[:2] == (key.kind, key.namespace))
    return sorted(name for _, _, name in alike if pattern.fullmatch(name))


def _compare(scene: Scene, about: str) -> Iterator[str]:
    census, lacking = Census(scene), Counter[str]()
    for _, pool in census.kept.served:
        yield f"= {about}: node pool {pool.name} ({pool.status}) serves it"
    for want in census.kept.unserved:
        lacking[want.need.key] += want.need.never is None
    for need in scene.needs:
        if lacking[need.key]:
            shape = f"{need.asks.shape.accelerator} {need.asks.shape.topology}".rstrip()
            yield f"+ {about}: {lacking[need.key]} new of {shape}"
    left = {pool.name for pool in census.kept.left}
    for pool in scene.pools:
        if pool.name in left:
            yield f"- {about}: node pool {pool.name} ({pool.status}) goes: the manifest needs fewer"
        elif pool.ours and pool.name not in census.homes:
            yield f"- {about}: node pool {pool.name} ({pool.status}) goes: it fits nothing that the manifest needs"


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
