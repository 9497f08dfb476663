"""Violations that are known and not mended yet. A row goes when its seed no longer shows it."""

import re
from dataclasses import dataclass

from tests.simulation.sim_judge import Violation


@dataclass(frozen=True, slots=True)
class Known:
    """One finding."""

    name: str
    """Short, for the report."""
    pattern: str
    """What ``invariant: text`` has in it, as a regular expression."""
    sentence: str
    """What is wrong, and why it stays for now."""
    seed: int
    """A scenario that shows it."""

    def covers(self, violation: Violation) -> bool:
        """Return whether a violation is this finding."""
        return re.search(self.pattern, f"{violation.invariant}: {violation.text}") is not None


KNOWN: tuple[Known, ...] = ()


def find_known(violation: Violation) -> Known | None:
    """Return the finding that a violation is; None for a new one."""
    return next((known for known in KNOWN if known.covers(violation)), None)
