"""Reports wrong arguments in our own words, because typer's errors quote pydantic and click.

A `typer.Typer` with several commands gets `Commands` as its ``cls``; a command that is alone in one
gets `Command`.
"""

from __future__ import annotations

import difflib
import typing
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BAD_INPUT = 2
_SHOWN_LENGTH_MAX = 80
_HELP = "--help"
_BELOW_RATIO_MIN = 0.8
_NUMBERS = {int: "a whole number", float: "a number"}


def refuse(text: object) -> NoReturn:
    """End the command with code 2 and ``error: TEXT`` on standard error."""
    typer.echo(f"error: {text}", err=True)
    raise typer.Exit(_BAD_INPUT)


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the near one of the words that are valid, else all of them."""
    known = sorted(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else f"valid: {', '.join(known)}"


class Commands(TyperGroup):
    """Several commands whose wrong arguments are told in our words."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Read the options that come before the command."""
        with _told():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Read the arguments of the command, and run it."""
        with _told():
            return super().invoke(ctx)


class Command(TyperCommand):
    """One command whose wrong arguments are told in our words."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Read the arguments of the command."""
        with _told():
            return super().make_context(*args, **extra)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except typer.TyperException as error:
        if error.message.startswith("Usage:"):  # a group without a command shows its help
            raise
        context = getattr(error, "ctx", None)
        hint = f"\nSee {context.command_path} {_HELP}" if context else ""
        refuse(f"{_describe(error, context)}{hint}")


def _describe(error: Any, context: Any) -> str:
    """Return ``NAME: what is wrong (got 'value'); valid: …``.

    Typer's classes of errors are private, so they are told apart by what they carry.
    """
    parameter, option = getattr(error, "param", None), getattr(error, "option_name", "")
    if parameter is not None:
        return f"{_name(parameter)}: {_describe_value(error, parameter)}"
    if option and context:
        return f"{option}: {_describe_unknown(option, context)}"
    if option:
        needs = "requires" in error.message
        problem, valid = ("needs a value", f"{option}=VALUE") if needs else ("takes no value", option)
        return f"{option}: {problem}; valid: {valid}"
    commands = getattr(context.command, "commands", None)
    if commands:  # No such command 'WORD'.
        word = error.message.partition("'")[2].partition("'")[0]
        return f"{word[:_SHOWN_LENGTH_MAX]!r} is not a command; {suggest(word, commands)}"
    words = error.message.partition("(s) (")[2][:-1]  # Got unexpected extra argument(s) (WORDS)
    usage = context.get_usage().removeprefix("Usage: ")
    return f"{words[:_SHOWN_LENGTH_MAX]!r} is more than the command takes; valid: {usage}"


def _describe_unknown(option: str, context: Any) -> str:
    above, below = _place_above(context), _place_below(context.command, context.command_path)
    if option in above:
        return f"does not belong behind the command; valid: {above[option]}"
    if option in below:
        return f"does not belong before the command; valid: for example {below[option]}"
    own = {_HELP, *_select_long(_list_options(context.command))}
    # All commands together have many options, so a weak resemblance to one of them says nothing.
    likely = difflib.get_close_matches(option, _select_long(below), n=1, cutoff=_BELOW_RATIO_MIN)
    near = next(iter(difflib.get_close_matches(option, {*own, *_select_long(above), *likely}, n=1)), "")
    if near in above.keys() - own:
        return f"is not an option; did you mean {above[near]}?"
    if near in below.keys() - own:
        return f"is not an option; did you mean {near} behind the command, for example {below[near]}?"
    return f"is not an option; {suggest(option, own)}"


def _place_above(context: Any) -> dict[str, str]:
    """Return the options that go before the command, each with its place."""
    if context.parent is None:
        return {}
    own = {each: f"{context.parent.command_path} {each} …" for each in _list_options(context.parent.command)}
    return _place_above(context.parent) | own


def _place_below(command: Any, path: str) -> dict[str, str]:
    """Return the options of the commands in a group, each with the place behind one of them."""
    places: dict[str, str] = {}
    for name, each in getattr(command, "commands", {}).items():
        own = {option: f"{path} {name} {option}" for option in _list_options(each)}
        places = _place_below(each, f"{path} {name}") | own | places
    return places


def _list_options(command: Any) -> set[str]:
    return {each for found in command.params for each in (*found.opts, *found.secondary_opts)}


def _select_long(options: Iterable[str]) -> list[str]:
    return sorted(each for each in options if each.startswith("--"))


def _name(parameter: Any) -> str:
    longest: str = max(parameter.opts, key=len)
    return longest if longest.startswith("-") else parameter.metavar or longest.upper()


def _describe_value(error: Any, parameter: Any) -> str:
    list_problems = getattr(error.__cause__, "errors", None)
    if list_problems is not None:  # pydantic's
        given = str(list_problems()[0]["input"])[:_SHOWN_LENGTH_MAX]
        return f"is not valid (got {given!r}); valid: {_list_valid(parameter)}"
    if "valid: " in error.message:
        return str(error.message)
    return f"{error.message.rstrip('.') or 'is missing'}; valid: {parameter.help.rstrip('.')}"


def _list_valid(parameter: Any) -> str:
    descriptor = parameter.type_descriptor
    if descriptor.choices:
        return ", ".join(map(str, descriptor.choices))
    kind = next(iter(typing.get_args(descriptor.annotation)), descriptor.annotation)
    number, least, most = _NUMBERS.get(kind, "a text"), parameter.min, parameter.max
    if least is None:
        return number
    return f"{number}, {least} or more" if most is None else f"{number} from {least} to {most}"
