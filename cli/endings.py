"""How every command ends: the exit codes, and errors told in a sentence instead of a traceback."""

from __future__ import annotations

from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING

import typer

from shared.core.errors import Misconfigured, ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Iterator

LAPTOP_HINT = (
    'On a laptop: `make up`, then `eval "$(make -s env)"`. '
    "In the cloud: docs/cli.md says how to get them from Terraform."
)


class Ending(IntEnum):
    """Exit codes; the same in every command, and listed in its ``--help``."""

    FINE = 0
    FINDINGS = 1
    """The answer needs a person: something is stuck, refused, broken or unknown."""
    BAD_INPUT = 2
    """An option, a file or a setting is wrong; nothing was done."""
    UNREACHABLE = 3
    """GKE, Kubernetes or Pub/Sub could not be asked, or refused."""


EPILOG = "Exit codes: 0 fine; 1 something needs a person; 2 wrong option, file or setting; 3 could not ask."


class BadInput(Exception):
    """Something that was given is wrong; the text names it, its value and what would be valid."""


@contextmanager
def told() -> Iterator[None]:
    """Turn our errors into one message on standard error and an exit code."""
    try:
        yield
    except BadInput as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(Ending.BAD_INPUT) from error
    except Misconfigured as error:
        typer.echo(f"error: {error}\n{LAPTOP_HINT}", err=True)
        raise typer.Exit(Ending.BAD_INPUT) from error
    except ProvisionerError as error:
        typer.echo(f"error ({error.reason}): {error}", err=True)
        raise typer.Exit(Ending.UNREACHABLE) from error


def end_with(ending: Ending) -> None:
    """End the command with a code; returns when all is fine."""
    if ending is not Ending.FINE:
        raise typer.Exit(ending)
