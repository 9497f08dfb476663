"""The floor of a cold start: the framework's hello world."""

from __future__ import annotations

from typing import TYPE_CHECKING

import functions_framework

if TYPE_CHECKING:
    from flask import Request


@functions_framework.http
def hello(_request: Request) -> str:
    """Answer."""
    return "Hello world!"
