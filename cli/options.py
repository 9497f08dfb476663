"""The options that several commands have."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from cli.printing import Format

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _check(text: str) -> str:
    if text and not _NAME.fullmatch(text):
        raise typer.BadParameter(f"is not a Kubernetes name (got {text[:80]!r}); valid: a name like team-a")
    return text


Namespace = Annotated[
    str,
    typer.Option("--namespace", "-n", metavar="NAME", callback=_check, help="Only workloads of this namespace."),
]
Output = Annotated[Format, typer.Option("--output", "-o", help="Format of the output.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again every 5 seconds, until Ctrl-C.")]
Sure = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
