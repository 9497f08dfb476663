"""The product without one of its safeties, to see that the stories notice; the rows are data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import yaml

from tests.simulation.sim_scenario import Act, Fault, Rollout, Scenario, Stock

ROOT = Path(__file__).resolve().parents[2]
_OFTEN = [float(at) for at in range(30, 2400, 30)]
_ONE = Act(5.0, "create", 0, "train", "JobSet", "two", 1)
STORIES = {
    "blind": Scenario(
        acts=[_ONE, Act(900.0, "suspend", 0, "train"), Act(1100.0, "resume", 0, "train")],
        faults=[Fault(900.0, "no-right", "get_workload", 0, 190.0)],
        ticks=_OFTEN,
    ),
    "differing releases": Scenario(acts=[_ONE], ticks=_OFTEN, candidates=2, collect_release=1),
    "dry zone": Scenario(acts=[_ONE], ticks=_OFTEN, candidates=2, stock=[Stock(0.0, "a", 0), Stock(0.0, "b", 30)]),
    "half a gang": Scenario(
        acts=[Act(5.0, "queue", 0, "gang", "JobSet", "two", 2)],
        ticks=_OFTEN,
        candidates=1,
        stock=[Stock(0.0, "a", 2)],
        quota_pods=8,
        check_seconds=600,
    ),
    # A pod comes to a pool whose nodes were found empty, while the look at another one takes long.
    "late pod": Scenario(
        acts=[
            Act(5.0, "create", 0, "train", "JobSet", "one", 3),
            Act(900.0, "delete", 0, "train"),
            Act(938.0, "create", 0, "late", "Pod", "one", 1),
        ],
        faults=[Fault(899.0, "lose"), Fault(900.5, "stall", "list_bound_pods", 0, 30.0)],
        ticks=_OFTEN,
    ),
    "no chips": Scenario(acts=[_ONE], faults=[Fault(0.0, "no-chips", "", 0, 2400.0)], ticks=_OFTEN),
    # A tick and a message of two instances meet the same demand, and one of them is refused.
    "two writers": Scenario(
        acts=[_ONE],
        faults=[Fault(5.0, "delay", "", 0, 87.0), Fault(92.0, "quota", "create", 0)],
        ticks=[95.0, *(at for at in _OFTEN if at > 300)],
        candidates=2,
        rollouts=[Rollout(0.0, "provision", 900.0)],
    ),
}


@dataclass(frozen=True, slots=True)
class Safety:
    """One safety of the product, and the text without it."""

    file: str
    text: str
    without: str
    shown_by: int | str
    """A seed or a story that shows when it is missing."""

    @contextmanager
    def missing(self) -> Iterator[None]:
        """Let the product do without it, wherever the function was imported.

        Raises:
            ValueError: the product has no such text once any more, so nothing would be missing.
        """
        text = (ROOT / self.file).read_text()
        before, between, after = text.partition(self.text)
        if not between or self.text in after:
            raise ValueError(f"{self.file} has not once: {self.text}")
        line = before.count("\n") + 1
        functions = list_functions(sys.modules[self.file.removesuffix(".py").replace("/", ".")])
        function = max(
            (each for each in functions if each.__code__.co_firstlineno <= line),
            key=lambda each: each.__code__.co_firstlineno,
        )
        plain = function.__code__
        codes = list_codes(compile(f"{before}{self.without}{after}", self.file, "exec"))
        function.__code__ = next(each for each in codes if each.co_qualname == plain.co_qualname)
        try:
            yield
        finally:
            function.__code__ = plain


def list_functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions and methods of a module."""
    own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    for value in (*own, *(each for kind in own if isinstance(kind, type) for each in vars(kind).values())):
        function = getattr(value, "func", value)  # that of a cached property
        if isinstance(function, FunctionType):
            yield function


def list_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code and all codes inside it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from list_codes(each)


SAFETIES = {
    name: Safety(*row) for name, row in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text()).items()
}
