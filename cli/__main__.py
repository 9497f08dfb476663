"""Start of `python -m cli` and of the installed command; the commands are in `app`."""

from __future__ import annotations

import errno
import io
import os
import sys

from cli.app import app


def main() -> None:
    """Run the command; a closed input is empty, and no output of this process is a traceback."""
    sys.stdin = sys.stdin or io.StringIO()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # its encoding may lack a character
    try:
        app(prog_name="tpu-provisioner")
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is not flushed yet
        sys.exit(f"error: standard output: cannot be written: {error.strerror}; valid: a disk with room")


if __name__ == "__main__":
    main()
