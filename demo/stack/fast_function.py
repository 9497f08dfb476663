"""Runs a function's folder by Google's own framework, with its waiting times shortened.

Run as ``python fast_function.py SPEED ARGUMENTS…`` in the folder of the function. The stand-ins'
clock is sped up, and the rules of `shared.plan` have bounded waits that no setting changes: so each
constant whose name ends in ``_SECONDS`` or ``_SECONDS_MAX`` is divided by the speed, and so is the
hour for which creates are counted.
"""

import importlib
import pkgutil
import re
import sys
from pathlib import Path

_WAITS = {"shared.plan": re.compile(r"[A-Z_]*SECONDS(_MAX)?"), "shared.engine": re.compile("HOUR")}
"""By package, the names of its waits; the engine's others bound calls, which are not sped up."""
_LEAST = {"USELESS_SECONDS": 120}
"""Real seconds: schedulers and webhooks that bind a pod are not sped up either."""


def shorten_waits(package: str, names: re.Pattern[str], speed: float) -> None:
    """Divide the waiting times of all modules of a package."""
    root = importlib.import_module(package)
    for found in pkgutil.iter_modules(root.__path__, f"{package}."):
        module = importlib.import_module(found.name)
        for name, value in list(vars(module).items()):
            if names.fullmatch(name) and isinstance(value, int | float):
                setattr(module, name, type(value)(max(_LEAST.get(name, 1), value / speed)))


def main() -> None:
    """Run the function until it is ended."""
    speed = float(sys.argv.pop(1))
    sys.path[0] = str(Path.cwd())
    for package, names in _WAITS.items():
        shorten_waits(package, names, speed)
    from functions_framework._cli import _cli  # noqa: PLC0415 -- found beside the function's own modules

    _cli()


if __name__ == "__main__":
    main()
