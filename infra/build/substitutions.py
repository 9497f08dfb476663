#!/usr/bin/env python3
"""Prints the build's substitutions as Terraform's variable of that name.

A substitution that a later build forgets keeps its value, unless the source has a file of inputs,
which then says everything that the build is not told.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FILE = Path(__file__).resolve().parents[2] / "deployment.tfvars"


def merge(kept: Mapping[str, str], names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return each substitution that has a value: that of this build, else the kept one."""
    values = {name: environ.get(f"_{name}") or kept.get(name, "") for name in names}
    return {name: value for name, value in values.items() if value}


def main() -> int:
    """Print them; the arguments are the file of the kept ones, and all names."""
    path, *names = sys.argv[1:]
    text = Path(path).read_text(encoding="utf-8")
    kept = json.loads(text)["substitutions"] if text and not FILE.exists() else {}
    json.dump({"substitutions": merge(kept, names, os.environ)}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
