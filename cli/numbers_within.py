"""Numbers as an option takes them: whole, and within bounds that the error names."""

from __future__ import annotations

import re
from dataclasses import dataclass

import typer

_DIGITS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class NumberWithin:
    """Parses the text of an option; click and pydantic tell errors in words of their own."""

    least: int
    most: int

    def __call__(self, text: str | int) -> int:
        """Return the number.

        Raises:
            typer.BadParameter: it is none, or out of bounds; the text says what is valid.
        """
        given = str(text)
        if not _DIGITS.fullmatch(given) or not self.least <= int(given) <= self.most:
            raise typer.BadParameter(
                f"not a number within the bounds (got {given[:80]!r}); valid: {self.least} to {self.most}"
            )
        return int(given)
