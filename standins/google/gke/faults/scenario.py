"""What the world of the fake is like.

Workload policies, reservations, timings, and the faults to start with.

Read from one YAML or JSON file (`--faults`): either a plain list of faults, or a mapping with
`faults`, `capacity`, `policies`, `reservations`, `timings`, `release_channel`,
`machines_everywhere`. Unknown keys are
refused by name. The default timings are those observed on real clusters where a recording exists,
and educated guesses elsewhere (standins/google/gke/README.md says which).
"""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from standins.google.gke.faults.capacity_script import Stock, parse_capacity
from standins.google.gke.faults.fault_rules import Fault, describe_shape, parse_fault
from standins.google.gke.resource_names import region_of

Range = tuple[float, float]
READS = frozenset({"GetNodePool", "ListNodePools", "GetOperation", "ListOperations", "GetCluster", "ListClusters"})


class ScenarioError(ValueError):
    """A scenario that cannot be read; says where and what would be valid."""


class Timings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How long things take, in virtual seconds; pairs are drawn from evenly."""

    create_latency: float = 1.4
    delete_latency: float = 0.3
    update_latency: float = 0.5
    read_latency: float = 0.1
    pending: Range = (1.0, 3.0)
    create_empty: Range = (20.0, 24.0)
    create_single: Range = (60.0, 120.0)
    create_slice: Range = (180.0, 600.0)
    delete_empty: Range = (21.0, 25.0)
    delete_nodes: Range = (160.0, 270.0)
    update: Range = (14.0, 16.0)
    resize: Range = (60.0, 120.0)
    late_failure: float = 50.0
    stockout: float = 2100.0
    stockout_atomic: float = 2100.0
    stockout_jitter: Range = (4.0, 12.0)
    first_error: Range = (5.0, 15.0)
    keep_operations: float = 86_400.0
    nodes_from: float = 0.6
    audit: Range = (1.0, 5.0)

    def latency(self, method: str) -> float:
        """Return how long a call takes before it is answered."""
        if method in READS:
            return self.read_latency
        if method == "CreateNodePool":
            return self.create_latency
        return self.delete_latency if method == "DeleteNodePool" else self.update_latency


class WorkloadPolicy(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A Compute Engine workload policy.

    `name` is a glob; without a topology it is read from the name's end.
    """

    name: str
    region: str = "*"
    topology: str = ""

    def topology_for(self, name: str, region: str) -> str | None:
        """Return the topology of policy `name` in this region, None when this is not it."""
        if not (fnmatchcase(name, self.name) and fnmatchcase(region, self.region)):
            return None
        return self.topology or name.rsplit("-", 1)[-1]


class Reservation(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A specific reservation: its zone (a glob) and how many machines it holds (null = enough)."""

    name: str
    zone: str = "*"
    machines: int | None = None


class Scenario(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The world's facts. `reservations` null: any name exists, with enough machines."""

    policies: list[WorkloadPolicy] = msgspec.field(
        default_factory=lambda: [WorkloadPolicy(name="tpu-provisioner-*")]
    )
    reservations: list[Reservation] | None = None
    timings: Timings = msgspec.field(default_factory=Timings)
    release_channel: Literal["RAPID", "REGULAR", "STABLE", "EXTENDED", "UNSPECIFIED"] = "REGULAR"
    """Of the clusters; UNSPECIFIED is none."""
    machines_everywhere: bool = False
    """Whether each zone has each machine."""
    capacity: tuple[Stock, ...] = ()

    @property
    def stocks(self) -> list[Stock]:
        """Return the stocks of machines; without any there are no bounds.

        The first that covers a pool is the pool's own.
        """
        held = [each for each in self.reservations or [] if each.machines is not None]
        return [*(Stock(reservation=each.name, steps=((0.0, each.machines),)) for each in held), *self.capacity]

    def policy_topology(self, name: str, location: str) -> str | None:
        """Return the topology of a workload policy of the location's region, or None."""
        found = (policy.topology_for(name, region_of(location)) for policy in self.policies)
        return next((topology for topology in found if topology is not None), None)

    def reservation(self, name: str) -> Reservation | None:
        """Return a reservation by name, None when it does not exist."""
        if self.reservations is None:
            return Reservation(name=name)
        return next((held for held in self.reservations if held.name == name), None)


def parse_scenario(raw: object) -> tuple[Scenario, list[Fault]]:
    """Return the scenario and the faults that plain data describes.

    Raises ScenarioError saying what is wrong.
    """
    if raw is None:
        return Scenario(), []
    if isinstance(raw, list):
        raw = {"faults": raw}
    if not isinstance(raw, dict):
        raise ScenarioError(f"a scenario is a list of faults or a mapping, got {type(raw).__name__}")
    faults = raw.get("faults") or []
    if not isinstance(faults, list):
        raise ScenarioError(f"faults: a list is wanted, got {faults!r}")
    try:
        plain = {key: value for key, value in raw.items() if key not in ("faults", "capacity")}
        scenario = msgspec.convert(plain, Scenario)
    except msgspec.ValidationError as error:
        message = describe_shape(error, Scenario)
        raise ScenarioError(f"{message}; valid keys: faults, capacity, policies, reservations, timings") from error
    scenario.capacity = parse_capacity([] if raw.get("capacity") is None else raw["capacity"])
    return scenario, [parse_fault(fault) for fault in faults]


def load_scenario(path: Path) -> tuple[Scenario, list[Fault]]:
    """Return the scenario and the faults of a YAML or JSON file.

    Raises ScenarioError naming the file.
    """
    try:
        return parse_scenario(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read ({error.strerror}); valid: a readable YAML file") from error
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ScenarioError(f"{path}{line}: is not YAML; valid: a YAML file") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise ScenarioError(f"{path}: is not YAML, or not UTF-8 text; valid: a YAML file") from error
    except ValueError as error:
        raise ScenarioError(f"{path}: {error}") from error
