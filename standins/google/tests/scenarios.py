"""The register of scenarios: each observes one behaviour of a server and states what is documented.

A scenario returns what it saw; the same function runs against the broker and against Google's
emulator.
"""

from collections.abc import Callable
from dataclasses import dataclass

from standins.google.tests.pubsub_world import World


@dataclass(frozen=True)
class Scenario:
    """A name, what the documentation promises, and how to observe it."""

    name: str
    documented: object
    observe: Callable[[World], object]


SCENARIOS: dict[str, Scenario] = {}


def scenario(documented: object) -> Callable[[Callable[[World], object]], Callable[[World], object]]:
    """Register a function as a scenario under its own name."""

    def register(observe: Callable[[World], object]) -> Callable[[World], object]:
        name = observe.__name__
        SCENARIOS[name] = Scenario(name, documented, observe)
        return observe

    return register
