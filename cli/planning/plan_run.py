"""One run of ``plan``: reads the manifests and what is asked of a cluster, and prints the plan."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import structs

from cli.access.cli_settings import read_plan_settings
from cli.access.deployment_choice import choose_environment, open_deployment
from cli.exit_codes import ExitCode
from cli.planning.facts import Facts
from cli.planning.makers import GENERATED
from cli.planning.manifests import read_manifests
from cli.planning.plan import plan
from cli.planning.plan_table import describe_plan, print_plan
from cli.printing import open_console, print_data, warn
from shared.engine.budget import Key
from shared.engine.look import Source
from shared.engine.reads import take_look
from shared.plan.counting import Census
from shared.settings import name_variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
            lines += _compare(structs.replace(scene, needs=needs), f"{key.namespace}/{name}")
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
class Planned:
    """A plan of some manifests."""

    found: Found
    needs: list[PlannedNeed]
    assumed: list[str]
    """What was not read of a cluster."""
    changes: list[str]
    """What differs from the pools that run."""
    prices: bool = True

    @property
    def code(self) -> ExitCode:
        """Return the exit code that it means."""
        if self.found.problems:
            return ExitCode.BAD_INPUT
        return ExitCode.FINDINGS if any(each.refused for each in self.needs) else ExitCode.FINE


def run_plan(files: Sequence[str], *, cluster: str, zone: str, diff: bool, prices: bool) -> Planned:
    """Return the plan for some files, compared with the pools that run if `diff`."""
    found = read_manifests(files)
    environ = choose_environment(always=diff)
    settings = read_plan_settings(environ, cluster=cluster, zone=zone)
    name, asks = next(iter(settings.clusters)), cluster or diff or environ is not os.environ
    ports = open_deployment(environ).ports if asks and name_variable("clusters") in environ else None
    facts = Facts(found.defined, ports.clusters[name] if ports else None)
    needs = plan(found, name, settings, facts)
    changes = compare(needs, name, ports) if ports and diff else []
    return Planned(found=found, needs=needs, assumed=facts.assumptions, changes=changes, prices=prices)


def show_plan(planned: Planned, form: Format) -> None:
    """Print a plan, and what is wrong with documents on standard error."""
    if form.for_programs:
        print_data(describe_plan(planned), form)
    elif planned.needs or planned.found.others or not planned.found.problems:
        print_plan(open_console(), planned)
    for each in planned.found.problems:
        warn(f"error: {each}")
