"""How a build shows how far it is.

A moving line on a terminal, a plain line now and then elsewhere.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

_PLAIN_SECONDS = 20.0


class Progress:
    """Tells a person what is being built; everything goes to standard error."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)

    def say(self, text: str) -> None:
        """Show one line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, title: str, cold_seconds: int) -> Iterator[Callable[[str], None]]:
        """Show one step while the block runs; the block tells each package that was compiled.

        `cold_seconds` is the forecast for two cores with nothing cached.
        """
        started, packages = time.monotonic(), 0
        forecast = f"about {_spoken(cold_seconds)} on two cores when nothing is cached"
        with self._console.status("") as status:
            shown = float("-inf")

            def note(package: str) -> None:
                nonlocal packages, shown
                packages += 1
                elapsed = time.monotonic() - started
                text = f"{title}: {_spoken(elapsed)}, {packages} packages, now {package}"
                if self._console.is_terminal:
                    status.update(text)
                elif elapsed - shown >= _PLAIN_SECONDS:
                    shown = elapsed
                    self.say(text)

            if self._console.is_terminal:
                status.update(f"{title} ({forecast})")
            else:
                self.say(f"{title} ({forecast})")
            yield note
        self.say(f"{title}: done in {_spoken(time.monotonic() - started)}, {packages} packages compiled")


def _spoken(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
