"""The functions of a stack: their bundle as it is deployed, run with shortened waiting times.

Run as ``python functions.py SPEED ARGUMENTS…`` in the folder of the bundle, this starts Google's
own framework. The stand-ins' clock is sped up, and the rules of `shared.plan` have bounded waits
that no setting changes: so each constant whose name ends in ``_SECONDS`` or ``_SECONDS_MAX`` is
divided by the speed, and so is the hour for which creates are counted.
"""

import importlib
import pkgutil
import re
import shutil
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_WAITS = {"shared.plan": re.compile(r"[A-Z_]*SECONDS(_MAX)?"), "shared.engine": re.compile("HOUR")}
"""By package, the names of its waits; the engine's others bound calls, which are not sped up."""
_LEAST = {"USELESS_SECONDS": 120}
"""Real seconds: schedulers and webhooks that bind a pod are not sped up either."""


def list_sources() -> dict[str, Path]:
    """Return each file of the bundle that Terraform packs, by its name, and where it is taken from.

    The buildpack puts only the folder of ``main.py`` on the import path and byte-compiles every
    file that it finds, so the bundle holds what runs and nothing else.
    https://github.com/GoogleCloudPlatform/buildpacks/tree/main/cmd/python/functions_framework
    """
    sources = {"main.py": _ROOT / "functions/main.py", "requirements.txt": _ROOT / "requirements.txt"}
    for path in sorted((_ROOT / "shared").rglob("*")):
        if path.suffix in (".py", ".json"):
            sources[path.relative_to(_ROOT).as_posix()] = path
    return sources


def stage(target: Path) -> None:
    """Write the bundle into an empty or absent folder."""
    for name, source in list_sources().items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target / name)


def shorten_waits(package: str, names: re.Pattern[str], speed: float) -> None:
    """Divide the waiting times of all modules of a package."""
    root = importlib.import_module(package)
    for found in pkgutil.iter_modules(root.__path__, f"{package}."):
        module = importlib.import_module(found.name)
        for name, value in list(vars(module).items()):
            if names.fullmatch(name) and isinstance(value, int | float):
                setattr(module, name, type(value)(max(_LEAST.get(name, 1), value / speed)))


def main() -> None:
    """Run a function until it is ended."""
    speed = float(sys.argv.pop(1))
    sys.path[0] = str(Path.cwd())
    for package, names in _WAITS.items():
        shorten_waits(package, names, speed)
    from functions_framework._cli import _cli  # noqa: PLC0415 -- found beside the function's own modules

    _cli()


if __name__ == "__main__":
    main()
