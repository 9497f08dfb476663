"""The product without one of its safeties, to see that the stories notice; the rows are data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec
import yaml

from tests.simulation.sim_scenarios import Scenario

ROOT = Path(__file__).resolve().parents[2]
TICKS = [[30, 2370]]
"""The first and the last moment of ticks, where a story says nothing else."""


@dataclass(frozen=True, slots=True)
class Safety:
    """One safety of the product, and the text without it."""

    file: str
    text: str
    without: str
    story: str
    """The story that shows when it is missing."""

    @contextmanager
    def missing(self) -> Iterator[None]:
        """Let the product do without it, wherever the function was imported."""
        before, between, after = (ROOT / self.file).read_text().partition(self.text)
        if not between or self.text in after:
            raise ValueError(f"{self.file} has not once: {self.text}")
        codes = list_codes(compile(f"{before}{self.without}{after}", self.file, "exec"))
        line = before.count("\n") + 1
        code = max((each for each in codes if each.co_firstlineno <= line), key=lambda each: each.co_firstlineno)
        module = import_module(self.file.removesuffix(".py").replace("/", "."))
        function: Any = reduce(getattr, code.co_qualname.split("."), module)
        function = getattr(function, "func", function)  # that of a cached property
        plain, function.__code__ = function.__code__, code
        try:
            yield
        finally:
            function.__code__ = plain


def list_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the codes of functions and methods, but not of what is inside a function."""
    for each in code.co_consts:
        if isinstance(each, CodeType) and "<" not in each.co_qualname:
            yield each
            yield from list_codes(each)


def read_story(row: dict[str, Any]) -> Scenario:
    ticks = [float(at) for first, last in row.get("ticks", TICKS) for at in range(first, last + 1, 30)]
    return msgspec.convert(row | {"ticks": ticks}, Scenario)


_ROWS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
SAFETIES = {name: Safety(*row) for name, row in _ROWS["safeties"].items()}
STORIES = {name: read_story(row) for name, row in _ROWS["stories"].items()}
