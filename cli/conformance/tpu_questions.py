"""The questions about TPU slices, for ``--tpu MACHINE:TOPOLOGY``. Only the last one makes nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.conformance.probe_pools import ACCEPTED, AT_REST, Lab, OutOfTime
from cli.conformance.questions import NotAsked, Seen, question
from cli.prices import find_pool_price
from shared.core.decide.failures import classify_failure
from shared.core.identity.pools import PoolSnapshot, PoolStatus
from shared.core.shapes.shape import Placement
from shared.core.shapes.tpu_catalogue import CHIPS_BY_MACHINE, FAMILIES
from shared.core.shapes.tpus import count_chips

if TYPE_CHECKING:
    from shared.core.ports import Machines

CREATION_MINUTES = 40
"""GKE tries for 35 minutes to make the machines of a slice."""
PAID_HOURS = 0.5
"""A slice that gets its machines is deleted at once, and GKE needs minutes for both."""
_LOOK_SECONDS = 10.0
_INVALID = "400 INVALID_ARGUMENT, read as InvalidRequest"


def count_hosts(tpu: str) -> int:
    """Return how many machines the slice of ``MACHINE:TOPOLOGY`` has; 0 for what no family has."""
    machine, _, topology = tpu.partition(":")
    found = all(each.isdecimal() for each in topology.split("x")) and CHIPS_BY_MACHINE.get(machine)
    hosts, rest = divmod(count_chips(topology), found) if found else (0, 0)
    return 0 if rest else hosts


def find_dollars(tpu: str, location: str) -> float | None:
    """Return what the question about a stockout costs if the slice gets its machines, by list."""
    machine, _, topology = tpu.partition(":")
    pool = PoolSnapshot(
        name="",
        status=PoolStatus.RUNNING,
        machine_type=machine,
        topology=topology,
        node_count=count_hosts(tpu),
        spot=True,
    )
    price = find_pool_price(pool, location)
    return None if price is None else price * PAID_HOURS


def _describe_slice(lab: Lab, **fields: Any) -> dict[str, Any]:
    """Return a slice in the form of the functions, as `shared.core.nodepool` builds it."""
    machine, _, topology = lab.tpu.partition(":")
    if not lab.zone:
        raise NotAsked("a slice needs --zone")
    family = next(each for each in FAMILIES if machine in (known.name for known in each.machines))
    placement = {"type": "COMPACT", "tpuTopology": topology}
    if family.placement == Placement.WORKLOAD_POLICY:
        placement = {"policyName": f"{lab.deployment.settings.workload_policy_prefix}{topology}"}
    return {
        "config": {"machineType": machine, "spot": True},
        "placementPolicy": placement,
        "locations": [lab.zone],
        **fields,
    }


def _describe_empty(lab: Lab) -> dict[str, Any]:
    scaling = {"enabled": True, "maxNodeCount": count_hosts(lab.tpu), "locationPolicy": "ANY"}
    return _describe_slice(lab, autoscaling=scaling)


@question("empty-slice", minutes=3, assumed="RUNNING", needs_tpu=True)
def ask_empty_slice(lab: Lab) -> Seen:
    """Create a slice of TPUs without nodes, for the autoscaler."""
    name = lab.new_name()
    answer = lab.create(name, **_describe_empty(lab))
    if answer != ACCEPTED:
        return lab.answer(answer)
    lab.wait(f"{name} to be created", lambda: lab.find_status(name) in AT_REST)
    pool = lab.read(f"/nodePools/{name}")
    placed = ", ".join(f"{key} {value}" for key, value in pool.get("placementPolicy", {}).items())
    return Seen(text=str(pool.get("status")), details={"placement": placed})


@question("resize-slice", minutes=3, assumed="501 UNIMPLEMENTED, read as InvalidRequest", needs_tpu=True)
def ask_resize_slice(lab: Lab) -> Seen:
    """Create a slice without nodes, and set its size."""
    name = lab.make(**_describe_empty(lab))
    answer = lab.resize(name, count_hosts(lab.tpu))
    return lab.answer(answer)


@question("bad-node-count", minutes=1, assumed=_INVALID, needs_tpu=True)
def ask_bad_node_count(lab: Lab) -> Seen:
    """Create a slice with one host too many; if GKE accepts it, its machines cost money."""
    answer = lab.create(lab.new_name(), **_describe_slice(lab, initialNodeCount=count_hosts(lab.tpu) + 1))
    return lab.answer(answer, "bad_node_count", answer="async") if answer == ACCEPTED else lab.answer(answer)


@question(
    "stockout",
    minutes=CREATION_MINUTES,
    assumed="ERROR, read as stockout; the group before: stockout",
    needs_tpu=True,
)
def ask_stockout(lab: Lab) -> Seen:
    """Create a slice of spot TPUs with its nodes, and read its instance group every 10 seconds.

    Raises:
        NotAsked: the slice got its machines, so nothing shows what a stockout is like.
    """
    name, began, told = lab.new_name(), lab.now(), dict[str, str]()
    lab.accept(lab.create(name, **_describe_slice(lab, initialNodeCount=count_hosts(lab.tpu))))
    beside = lab.new_name()
    lab.accept(lab.create(beside))

    def is_over() -> bool:
        age = f"{lab.now() - began:.0f} s"
        found = lab.deployment.ports.pools.get(lab.cluster, name)
        if found is not None and found.group_urls:
            _note_errors(lab.deployment.ports.pools.read_machines(found), age, told)
        if "another pool runs" not in told and lab.find_status(beside) == "RUNNING":
            told["another pool runs"] = f"after {age}"
        return lab.find_status(name) in (*AT_REST, "")

    try:
        seconds = lab.wait("GKE to give up", is_over, every=_LOOK_SECONDS)
    except OutOfTime as error:
        raise OutOfTime(f"{error}; {'; '.join(f'{key}: {value}' for key, value in told.items())}") from error
    pool = lab.read(f"/nodePools/{name}")
    if pool.get("status") == "RUNNING":
        raise NotAsked(f"no stockout came: the slice got its machines after {seconds:.0f} s")
    words = pool.get("statusMessage") or "; ".join(each.get("message", "") for each in pool.get("conditions", []))
    told |= {"ended after": f"{seconds:.0f} s", "words": words}
    group = classify_failure(told.get("the group's words", ""))
    text = f"{pool.get('status')}, read as {classify_failure(words)}; the group before: {group}"
    return Seen(
        text=text,
        details=told,
        timings={"stockout": float(round(seconds)), "stockout_atomic": float(round(seconds))},
    )


def _note_errors(machines: Machines, age: str, told: dict[str, str]) -> None:
    if machines.errors and "the group's words" not in told:
        told |= {"the group tells it": f"after {age}", "the group's words": machines.errors[0].message}
