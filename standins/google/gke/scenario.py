"""What the world of the fake is like: machines that there are, timings, and faults to start with.

Read from one YAML or JSON file (`--faults`): either a plain list of faults, or a mapping with
`faults`, `capacity`, `timings`, `release_channel`, `machines_everywhere`. Unknown keys are refused
by name. The default timings are those observed on real clusters where a recording exists, and
educated guesses elsewhere (standins/google/gke/README.md says which).
"""

import itertools
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml

from standins.google.gke.faults import Fault, Target, parse_fault
from standins.google.gke.machines import find_machine
from standins.google.gke.names import is_zone

Range = tuple[float, float]
Amount = Annotated[int, msgspec.Meta(ge=0)] | None  # how many machines there are; None: no bound
READS = frozenset({"GetNodePool", "ListNodePools", "GetOperation", "ListOperations", "GetCluster", "ListClusters"})
TIERS = ("on-demand", "spot", "preemptible", "reservation", "flex-start")


_UNITS = ("nodes", "chips")


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


class _Change(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    at: Annotated[float, msgspec.Meta(gt=0)]
    nodes: Amount | msgspec.UnsetType = msgspec.UNSET
    chips: Amount | msgspec.UnsetType = msgspec.UNSET


class Stock(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, eq=False):
    """The machines that all pools of its patterns share, counted in nodes or chips.

    `changes` are later amounts, each with the virtual second from which it holds. The seconds count
    from the start, or `from_use`: from the first node that takes a machine.
    """

    machine_type: str = "*"
    zone: str = "*"
    tier: str = "*"
    reservation: str = "*"
    nodes: Amount | msgspec.UnsetType = msgspec.UNSET
    chips: Amount | msgspec.UnsetType = msgspec.UNSET
    changes: list[_Change] = []
    from_use: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be played."""
        self._check_amounts()
        if _is_exact(self.machine_type) and find_machine(self.machine_type) is None:
            raise ValueError(f"machine_type: {self.machine_type!r}; valid: a machine type of GKE, or a pattern")
        if _is_exact(self.zone) and not is_zone(self.zone):
            raise ValueError(f"zone: {self.zone!r}; valid: a zone such as us-east5-b, or a pattern")
        tiers = [tier for tier in TIERS if fnmatchcase(tier, self.tier)]
        if not tiers or (self.reservation != "*" and "reservation" not in tiers):
            raise ValueError(f"tier: {self.tier!r}; valid: one of {', '.join(TIERS)}, that of a reservation only")

    def _check_amounts(self) -> None:
        units = {tuple(unit for unit in _UNITS if unit in _list_set(each)) for each in (self, *self.changes)}
        if len(units) != 1 or units <= {(), _UNITS}:
            raise ValueError("a rule and its changes need one unit; valid: nodes or chips, not both")
        moments = [each.at for each in self.changes]
        if any(after <= before for before, after in itertools.pairwise(moments)):
            raise ValueError(f"changes: {moments} are no seconds that grow")

    @property
    def unit(self) -> str:
        """Return in what it is counted."""
        return "chips" if self.nodes is msgspec.UNSET else "nodes"

    def covers(self, target: Target, reservation: str) -> bool:
        """Return whether a pool takes its machines from here."""
        place = all(
            fnmatchcase(getattr(target, name), getattr(self, name)) for name in ("machine_type", "zone", "tier")
        )
        return place and fnmatchcase(reservation, self.reservation)

    def amount_at(self, second: float, begin: float = 0.0) -> int | None:
        """Return how many there are at a virtual second; `begin` is when its own begin to count."""
        due = [each for each in self.changes if begin + each.at <= second]
        amount = getattr(due[-1] if due else self, self.unit)
        return None if amount is None else int(amount)


class Scenario(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The world's facts."""

    timings: Timings = msgspec.field(default_factory=Timings)
    release_channel: Literal["RAPID", "REGULAR", "STABLE", "EXTENDED", "UNSPECIFIED"] = "REGULAR"
    """Of the clusters; UNSPECIFIED is none."""
    machines_everywhere: bool = False  # whether each zone has each machine
    capacity: list[Stock] = []
    """The first that covers a pool is the pool's own; without any there are no bounds."""


def parse_scenario(raw: object) -> tuple[Scenario, list[Fault]]:
    """Return the scenario and the faults that plain data describes.

    Raises ScenarioError saying what is wrong.
    """
    raw = {"faults": raw} if isinstance(raw, list) else raw or {}
    if not isinstance(raw, dict) or not isinstance(raw.get("faults", []), list):
        raise ScenarioError("a scenario is a list of faults, or a mapping with a list of faults")
    try:
        plain = {key: value for key, value in raw.items() if key != "faults"}
        return msgspec.convert(plain, Scenario), [parse_fault(fault) for fault in raw.get("faults", [])]
    except msgspec.ValidationError as error:
        keys = ", ".join(("faults", *Scenario.__struct_fields__))
        raise ScenarioError(f"{error}; valid keys: {keys}") from error


def load_scenario(path: Path) -> tuple[Scenario, list[Fault]]:
    """Return the scenario and the faults of a YAML or JSON file.

    Raises ScenarioError naming the file.
    """
    try:
        return parse_scenario(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read ({error.strerror}); valid: a readable YAML file") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise ScenarioError(f"{path}: is not YAML: {error}; valid: a YAML file") from error
    except ValueError as error:
        raise ScenarioError(f"{path}: {error}") from error


def _list_set(rule: msgspec.Struct) -> list[str]:
    return [name for name in rule.__struct_fields__ if getattr(rule, name) is not msgspec.UNSET]


def _is_exact(pattern: str) -> bool:
    return not any(each in pattern for each in "*?[")
