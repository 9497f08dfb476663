"""Start of the installed command, whose modules lie in the package `tpu_provisioner`."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run the command of this installation.

    Its imports begin with `cli` and `shared`, as in the repository. So the package's
    folder is searched first, in this process only.
    """
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from cli.__main__ import main as start  # noqa: PLC0415 -- found only from here on

    start()
