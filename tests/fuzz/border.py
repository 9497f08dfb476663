"""One border of the product: how an input is made of a recipe, and what must hold for it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.spoiling import RECIPE_BYTES, Recipe

AT_ONCE = 10
"""Recipes in one draw of hypothesis, whose own cost is that of one input."""
_BYTES = AT_ONCE * RECIPE_BYTES


class Lost(AssertionError):
    """An input disappeared: no decision, no retry, no report that names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """A place where the product reads what others wrote."""

    name: str
    share: float
    """How much of a large run it gets, beside the shares of the others."""
    build: Callable[[Recipe], Any]
    """Return the input of a recipe."""
    check: Callable[[Any], None]
    """Pass an input through the product; raises whatever is no documented end of it."""
    show: Callable[[Any], str] = repr
    """Return an input for a person."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that ended in an undocumented way, made as small as hypothesis can."""

    border: Border
    recipe: bytes
    error: BaseException


def fuzz(border: Border, inputs: int, first_seed: int) -> Finding | int:
    """Return how many inputs a border took, or its first finding; the same for the same seed.

    The number of inputs is rounded up to a multiple of `AT_ONCE`.
    """
    taken = 0
    failed = b""

    @seed(first_seed)
    @settings(
        max_examples=-(-inputs // AT_ONCE),
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(st.binary(min_size=_BYTES, max_size=_BYTES))
    def take(raw: bytes) -> None:
        nonlocal taken, failed
        for start in range(0, _BYTES, RECIPE_BYTES):
            taken += 1
            recipe = raw[start : start + RECIPE_BYTES]
            try:
                border.check(border.build(Recipe(recipe)))
            except BaseException:
                failed = recipe
                raise

    try:
        take()
    except Exception as error:  # noqa: BLE001 -- whatever comes out is the finding
        return Finding(border, failed.rstrip(b"\0"), error)
    return taken
