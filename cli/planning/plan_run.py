"""One run of ``plan``: reads the manifests and what is asked of a cluster, and prints the plan."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import structs

from cli.access.cli_settings import read_plan_settings
from cli.access.deployment_choice import choose_environment, open_deployment
from cli.exit_codes import ExitCode
from cli.planning.facts import Facts
from cli.planning.makers import GENERATED
from cli.planning.manifests import read_manifests
from cli.planning.plan import PlannedNeed, plan, summarize
from cli.planning.pool_details import describe_disk, list_labels, list_taints
from cli.prices import HOURS_PER_MONTH, READ_ON, SOURCE, write_price
from cli.printing import Column, as_data, count, open_console, print_data, print_line, print_table, styled, warn
from shared.engine.budget import Key
from shared.engine.look import Source
from shared.engine.reads import take_look
from shared.plan.counting import Census
from shared.settings import name_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import Console
    from rich.text import Text

    from cli.planning.manifests import Found
    from cli.planning.plan import PlannedNeed
    from cli.printing import Format
    from shared.engine.outside import Ports
    from shared.needs.nodepool import Demand
    from shared.plan.scene import Scene


def _name(each: PlannedNeed) -> str:
    return f"{each.key.namespace}/{each.key.name}"


def _show_pools(each: PlannedNeed) -> str:
    more = f" (up to {each.later} more)" if each.later and each.creates else ""
    return f"{each.pools}{more}"


def _show_topology(each: PlannedNeed) -> str:
    shape = each.demand.shape if each.demand else None
    if shape is None:
        return "-"
    return f"{shape.machine.chips} {shape.family.accelerator}" if shape.gpus else shape.topology


def _show_decision(each: PlannedNeed) -> Text:
    look = "ok" if each.creates else "bad" if each.refused else "warn"
    reason = "" if each.creates else f": {each.decision.reason}"
    return styled(f"{each.decision.verdict}{reason}", look)


def _if_created(read: Callable[[PlannedNeed], int]) -> Callable[[PlannedNeed], str]:
    return lambda each: str(read(each)) if each.creates else "-"


def _of_demand(read: Callable[[Demand], Any]) -> Callable[[PlannedNeed], Any]:
    return lambda each: read(each.demand) if each.demand else None


def _of_pool(read: Callable[[dict[str, Any]], Any]) -> Callable[[PlannedNeed], Any]:
    return lambda each: read(dict(each.node_pool)) if each.node_pool else None


COLUMNS: list[Column[PlannedNeed]] = [
    Column("namespace", lambda each: each.key.namespace),
    Column("workload", lambda each: each.key.name, "JOB", _name),
    Column("kind", lambda each: each.key.kind),
    Column("pools", lambda each: each.pools, "POOLS", _show_pools),
    Column("up_to_more", lambda each: each.later),
    Column("node_count", lambda each: each.nodes, "NODES", _if_created(lambda each: each.nodes)),
    Column("chips", lambda each: each.chips, "CHIPS", _if_created(lambda each: each.chips)),
    Column("machine_type", _of_demand(lambda demand: demand.shape.machine.name), "MACHINE"),
    Column("topology", _of_demand(lambda demand: demand.shape.topology), "TOPOLOGY", _show_topology),
    Column("tier", _of_demand(lambda demand: str(demand.way.tier)), "TIER"),
    Column("zone", _of_demand(lambda demand: demand.way.zone), "ZONE"),
    Column("candidates", _of_demand(lambda demand: [str(each) for each in demand.need.ways])),
    Column("decision", lambda each: str(each.decision.verdict), "DECISION", _show_decision),
    Column("reason", lambda each: str(each.decision.reason)),
    Column("message", lambda each: each.decision.message),
    Column("requires", lambda each: list(each.requires)),
    Column("notes", lambda each: list(each.notes)),
    Column("disk", _of_pool(describe_disk)),
    Column("taints", _of_pool(list_taints)),
    Column("labels", _of_pool(list_labels)),
    Column("placement", _of_pool(lambda pool: pool.get("placementPolicy"))),
    Column("node_pool", lambda each: each.node_pool),
]
"""What is said of a need, for people and for programs."""
PRICES: list[Column[PlannedNeed]] = [
    Column("dollars_per_hour", lambda each: each.price),
    Column(
        "dollars_per_month", lambda each: None if each.price is None else round(each.price * HOURS_PER_MONTH, 2)
    ),
]


def describe_plan(planned: Planned) -> dict[str, Any]:
    """Return a plan for programs."""
    columns = [*COLUMNS, *(PRICES if planned.prices else ())]
    return {
        "needs": [as_data(columns, each) for each in planned.needs],
        "summary": summarize(planned.needs, unserved=planned.found.unserved),
        "not_planned": planned.found.others,
        "unreadable": planned.found.problems,
        "assumed": planned.assumed,
        "diff": planned.changes,
    }


def print_plan(console: Console, planned: Planned) -> None:
    """Print a plan: one line for each need, all refusals, what else is said, and the sum."""
    needs, found = planned.needs, planned.found
    if needs:
        print_table(console, COLUMNS, needs)
        print_line(console)
    for each in needs:
        print_line(console, _describe(each, prices=planned.prices) if each.creates else _describe_refusal(each))
    remarks = [f"{_name(each)}: {text}" for each in needs for text in _list_remarks(each)]
    left = [f"not planned: {', '.join(found.others)}"] * bool(found.others)
    price = [_sum_prices(needs)] * (planned.prices and any(each.creates for each in needs))
    summary = summarize(needs, unserved=found.unserved)
    for line in (*dict.fromkeys(remarks), *left, *planned.assumed, *planned.changes, *price, summary):
        print_line(console, line)


def _describe_refusal(each: PlannedNeed) -> Text:
    text = f"{_name(each)}: {each.decision.message} [{each.decision.reason}]"
    return styled(text, "bad" if each.refused else "warn")


def _list_remarks(each: PlannedNeed) -> list[str]:
    return [*(f"needs {need}" for need in each.requires), *each.notes]


def _describe(each: PlannedNeed, *, prices: bool) -> str:
    """Return what the pools of a need have, and their list price."""
    pool = each.node_pool or {"config": {"labels": {}}}
    own = ", ".join(f"{key}={value}" for key, value in sorted(list_labels(pool).items()))
    taints = ", ".join(list_taints(pool))
    text = f"disk {describe_disk(pool)}; taints {taints}; {f'labels {own}' if own else 'no labels of its own'}"
    one = None if each.price is None else each.price / each.pools
    return f"{_name(each)}: {text}" + f"; price of each {write_price(one)}" * prices


def _sum_prices(needs: Sequence[PlannedNeed]) -> str:
    """Return the price of all pools that are created now, with the table's source."""
    created = [each for each in needs if each.creates]
    prices = [each.price for each in created if each.price is not None]
    unknown = sum(each.pools for each in created if each.price is None)
    if not prices:
        return "list price: unknown"
    total, tail = sum(prices), f", and {count(unknown, 'pool')} whose price is unknown" if unknown else ""
    month = f"${total * HOURS_PER_MONTH:,.0f} a month of {HOURS_PER_MONTH} hours"
    return f"list price: ${total:,.2f} an hour, {month}{tail} (prices of {READ_ON}, {SOURCE})"


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
