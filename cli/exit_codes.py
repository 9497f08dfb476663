"""The exit codes of the commands, and error messages in place of tracebacks."""

from __future__ import annotations

import re
from contextlib import contextmanager
from enum import IntEnum
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

import typer

from shared.model.errors import Misconfigured, ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LAPTOP_HINT = (
    'For the local stack: `make up`, then `eval "$(make -s env)"`. '
    "In the cloud: --project and --name find the deployment (docs/cli.md)."
)
P = ParamSpec("P")


class ExitCode(IntEnum):
    """Exit codes; the same in every command, and listed in its ``--help``."""

    FINE = 0
    FINDINGS = 1  # a person must act: something is stuck, refused, broken or unknown
    BAD_INPUT = 2  # an option, a file or a setting is wrong. Nothing was changed.
    UNREACHABLE = 3  # GKE, Kubernetes or Pub/Sub did not answer, or refused


EPILOG = "Exit codes: 0 fine; 1 a person must act; 2 wrong option, file or setting; 3 no answer, or refused."


_NUMBER = re.compile(r"\[Errno -?\d+\] ")
_PLACE = re.compile(r"HTTPS?Connection(?:Pool)?\(host='([^']*)', port=(\d+)\)")
_CAUSE = re.compile(r"\[Errno -?\d+\] ([A-Za-z][\w ]*)|(timed out|CERTIFICATE_VERIFY_FAILED|Connection aborted)")


def say(error: Exception | str) -> str:
    """Return the text of an error; one without an answer names the address and the cause only."""
    text = str(error)
    place = _PLACE.search(text)
    if place is None:
        return _NUMBER.sub("", text)
    cause = _CAUSE.search(text)
    why = f" ({cause[1] or cause[2]})" if cause else ""
    return f"{place[1]}:{place[2]} does not answer{why}"


@contextmanager
def noting(unread: list[str], what: str) -> Iterator[None]:
    """Go on without a source that cannot be read; a list gets its name and the error."""
    try:
        yield
    except ProvisionerError as error:
        unread.append(f"{what}: {say(error)}")


class BadInput(Exception):
    """Something that was given is wrong; the text names it, its value and what would be valid."""


def answering(command: Callable[P, ExitCode]) -> Callable[P, None]:
    """Return a command that ends with its exit code, and with one message for an error of ours."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except (BadInput, Misconfigured) as error:
            hint = f"\n{LAPTOP_HINT}" if isinstance(error, Misconfigured) else ""
            typer.echo(f"error: {say(error)}{hint}", err=True)
            code = ExitCode.BAD_INPUT
        except ProvisionerError as error:
            # Google's libraries take half a second to load, and most commands end without an error.
            from shared.edges.google import find_request  # noqa: PLC0415

            request = find_request(error)
            where = f" [{request}]" if request else ""
            typer.echo(f"error ({error.reason}): {say(error)}{where}", err=True)
            code = ExitCode.UNREACHABLE
        if code is not ExitCode.FINE:
            raise typer.Exit(code)

    return run
