"""Asks a person before something is sent or removed."""

from __future__ import annotations

import sys

import typer

from cli.exit_codes import BadInput


def confirm(question: str, *, sure: bool) -> None:
    """Return if a person agrees, or is sure already."""
    if sure:
        return
    if not has_terminal():
        raise BadInput(f"--yes: is needed, because there is no terminal to ask on. {question}")
    if not typer.confirm(question, err=True):
        raise BadInput("nothing was changed")


def has_terminal() -> bool:
    """Return whether a person can answer."""
    return sys.stdin.isatty()
