"""A process that has loaded the libraries of others, and forks for each run in a changed tree.

Tests begin in a third of a second then. What belongs to the tree is loaded in the fork only, so
each fork sees the tree as it is.
"""

import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress

LIBRARIES = ("pytest", "hypothesis", "pytest_timeout", "yaml", "msgspec", "greenlet", "google.cloud.container_v1")
CRASHED = 70
_POLL_SECONDS = 0.01


def serve() -> None:
    """Answer each line of standard input, a program and its bound, with what came of it."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(**json.loads(line))) + "\n")
        sys.stdout.flush()


def run(program: str, seconds: float) -> tuple[int | None, str]:
    """Return how a Python program ended, None if it did not in time, and what it wrote.

    Its own seconds are bounded as well: on a busy machine it may have to wait for long.
    """
    with tempfile.TemporaryFile() as written:
        child = os.fork()
        if not child:
            _become(program, seconds, written.fileno())
        code = _wait(child, time.monotonic() + 4 * seconds)
        written.seek(0)
        return code, written.read().decode(errors="replace")


def _become(program: str, seconds: float, output: int) -> None:
    """Run a program in this process, which ends with it."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    code = CRASHED
    try:
        exec(compile(program, "program", "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 -- whatever it was, this process ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, until: float) -> int | None:
    """Return how a child ended; one that has not until then is killed with all that it started."""
    ended, status = os.waitpid(child, os.WNOHANG)
    while not ended and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        ended, status = os.waitpid(child, os.WNOHANG)
    with suppress(ProcessLookupError):  # what it started ends with it
        os.killpg(child, signal.SIGKILL)
    if not ended:
        os.waitpid(child, 0)
        return None
    return None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    serve()
