"""How many machines there are, and when that changes: the section `capacity` of a faults file.

Pure data and its checks. Who gets machines is decided in `model/supply.py`.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NoReturn

from standins.google.gke.faults.fault_rules import Target
from standins.google.gke.resource_names import is_zone

TIERS = ("on-demand", "spot", "preemptible", "reservation", "flex-start")
_UNITS = ("nodes", "chips")
_PATTERNS = ("machine_type", "zone", "tier", "reservation")
_FROM_USE = "from_use"
_FIELDS = ", ".join((*_PATTERNS, *_UNITS, "changes", _FROM_USE))


class CapacityError(ValueError):
    """A capacity script that cannot be played; names the field, its value and what is valid."""


@dataclass(frozen=True)
class Stock:
    """The machines that all pools of its patterns share, counted in `unit`: nodes or chips.

    `steps` are the amounts, each with the virtual second from which it holds. None: no bound. The
    seconds count from the start, or `from_use`: from the first node that takes a machine.
    """

    machine_type: str = "*"
    zone: str = "*"
    tier: str = "*"
    reservation: str = "*"
    unit: str = "nodes"
    steps: tuple[tuple[float, int | None], ...] = ((0.0, None),)
    from_use: bool = False

    def covers(self, target: Target, reservation: str) -> bool:
        """Return whether a pool takes its machines from here."""
        return (
            fnmatchcase(target.machine_type, self.machine_type)
            and fnmatchcase(target.zone, self.zone)
            and fnmatchcase(target.tier, self.tier)
            and fnmatchcase(reservation, self.reservation)
        )

    def amount_at(self, second: float, begin: float = 0.0) -> int | None:
        """Return how many there are at a virtual second, None without a bound.

        `begin` is the second from which its own count.
        """
        return [amount for at, amount in self.steps if begin + at <= second][-1]


def parse_capacity(raw: object) -> tuple[Stock, ...]:
    """Return the stocks that plain data describes, in their order.

    Raises CapacityError for the first field that cannot be played.
    """
    if not isinstance(raw, list):
        refuse("capacity", "must be a list", raw, "a list of rules, each with nodes or chips")
    return tuple(_stock(f"capacity[{index}]", rule) for index, rule in enumerate(raw))


def _stock(where: str, rule: object) -> Stock:
    fields = _mapping(where, rule, _FIELDS)
    units = [unit for unit in _UNITS if unit in fields]
    if len(units) != 1:
        refuse(where, "must have one unit", units, "nodes or chips, not both")
    patterns = {name: fields[name] for name in _PATTERNS if name in fields}
    for name, pattern in patterns.items():
        if not isinstance(pattern, str) or not pattern:
            refuse(f"{where}.{name}", "must be a text", pattern, "a name or a glob pattern, or no field")
    zone = patterns.get("zone", "*")
    if is_exact(zone) and not is_zone(zone):
        refuse(f"{where}.zone", "is no zone", zone, "a zone such as us-east5-b, or a pattern")
    tiers = [tier for tier in TIERS if fnmatchcase(tier, patterns.get("tier", "*"))]
    if not tiers:
        refuse(f"{where}.tier", "matches no tier", patterns["tier"], ", ".join(TIERS))
    if "reservation" in patterns and "reservation" not in tiers:
        refuse(f"{where}.tier", "does not go with a reservation", patterns["tier"], "reservation, or no field")
    from_use = fields.get(_FROM_USE, False)
    if not isinstance(from_use, bool):
        refuse(f"{where}.{_FROM_USE}", "must be a truth value", from_use, "true or false, or no field")
    return Stock(**patterns, unit=units[0], steps=_steps(where, fields, units[0]), from_use=from_use)


def _steps(where: str, fields: dict[str, Any], unit: str) -> tuple[tuple[float, int | None], ...]:
    changes = fields.get("changes", [])
    if not isinstance(changes, list):
        refuse(f"{where}.changes", "must be a list", changes, f"a list of mappings with at and {unit}")
    steps = [(0.0, _amount(f"{where}.{unit}", fields[unit]))]
    for index, change in enumerate(changes):
        place, allowed = f"{where}.changes[{index}]", f"at, {unit}"
        step = _mapping(place, change, allowed)
        for missing in {"at", unit} - set(step):
            refuse(f"{place}.{missing}", "is missing", None, allowed)
        at, before = step["at"], steps[-1][0]
        if isinstance(at, bool) or not isinstance(at, int | float) or not before < at < float("inf"):
            refuse(f"{place}.at", "must be later", at, f"virtual seconds from the start, more than {before:g}")
        steps.append((float(at), _amount(f"{place}.{unit}", step[unit])))
    return tuple(steps)


def _amount(where: str, value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        refuse(where, "is no amount", value, "a whole number from 0, or null for no bound")
    return value


def _mapping(where: str, value: object, allowed: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        refuse(where, "must be a mapping", value, allowed)
    for name in value:
        if name not in allowed.split(", "):
            refuse(f"{where}.{name}", "is no field here", value[name], allowed)
    return value


def is_exact(pattern: str) -> bool:
    """Return whether a pattern names one thing only."""
    return not any(each in pattern for each in "*?[")


def refuse(where: str, wrong: str, value: object, valid: str) -> NoReturn:
    """Raise CapacityError for a field."""
    raise CapacityError(f"{where}: {wrong} (got {value!r}); valid: {valid}")
