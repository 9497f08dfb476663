"""Keeps one known line of noise out of the stand-ins' JSON logs; nothing else is silenced."""

import warnings


def silence_cancelled_connects() -> None:
    """Drop the warning about a connection attempt that the end of the process cancelled.

    anyio races the addresses of a host in tasks of their own; one that is cancelled before its
    first step leaves a coroutine "never awaited", which the interpreter reports on its way out, as
    plain text in a log of JSON lines.
    """
    warnings.filterwarnings("ignore", message=r"coroutine 'connect_tcp\.", category=RuntimeWarning)
