"""Wrong values of options, told in our own words: typer quotes pydantic.

A `typer.Typer` with several commands gets `Commands` as its ``cls``; a command that is alone in one
gets `Command`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERS = {int: "a whole number", float: "a number"}


class Commands(TyperGroup):
    """Several commands whose wrong values are told in our words."""

    def invoke(self, ctx: Any) -> Any:
        """Read the arguments of the command, and run it."""
        with _own_words():
            return super().invoke(ctx)


class Command(TyperCommand):
    """One command whose wrong values are told in our words."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Read the arguments of the command."""
        with _own_words():
            return super().make_context(*args, **extra)


@contextmanager
def _own_words() -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        list_problems = getattr(error.__cause__, "errors", None)
        parameter: Any = error.param
        if list_problems is not None and parameter is not None:  # pydantic's
            given = str(list_problems()[0]["input"])[:80]
            error.message = f"{given!r} is not valid; valid: {_list_valid(parameter)}"
        raise


def _list_valid(parameter: Any) -> str:
    descriptor, least, most = parameter.type_descriptor, parameter.min, parameter.max
    if descriptor.choices:
        return ", ".join(map(str, descriptor.choices))
    kind = descriptor.annotation
    number = _NUMBERS.get(kind) or next(
        (text for each, text in _NUMBERS.items() if each.__name__ in str(kind)), ""
    )
    if least is None:
        return number or "a text"
    return f"{number}, {least} or more" if most is None else f"{number} from {least} to {most}"
