"""One part of the policy as a table: the product of its axes, its rule, and what must hold."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

Situation = dict[str, str]
Rule = Callable[..., Any]


@dataclass(eq=False, kw_only=True)
class DecisionTable:
    """Every situation that a rule can meet."""

    axes: dict[str, tuple[str, ...]]
    rule: Rule
    ask: Callable[[Rule, Situation], Any]
    """Ask a rule, the real one or a broken one, about one situation."""
    judge: Callable[[Situation, Any], list[str]]
    """Return the invariants that an answer breaks."""
    more_than: int
    """A bound below the number of the situations, so that none is lost unseen."""

    def list_situations(self) -> Iterator[Situation]:
        """Yield the full product of the axes."""
        for values in product(*self.axes.values()):
            yield dict(zip(self.axes, values, strict=True))

    @cached_property
    def everything(self) -> tuple[tuple[Situation, Any], ...]:
        """What the real rule answers in every situation."""
        return tuple((row, self.ask(self.rule, row)) for row in self.list_situations())


def list_broken(invariants: dict[str, bool]) -> list[str]:
    """Return the names of the invariants that do not hold."""
    return [name for name, holds in invariants.items() if not holds]
