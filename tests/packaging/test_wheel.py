"""The wheel that `pipx install .` builds: the command, what it imports, the licence, no more.

Built without the network by the build backend that requirements/development.in pins.
"""

import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from shared import VERSION
from tests.program_runs import run_program

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("cli", "shared")
PACKED = (".py", ".html", ".json", ".yaml", ".md")
NOT_SOURCES = (".*", "__pycache__", "build", "*.egg-info")
UV = Path(sys.executable).with_name("uv")  # as requirements/development.in pins it
OFFLINE = ("--quiet", "--offline", f"--python={sys.executable}")
ASK_FOR_FILES = """
import json, sys, tpu_provisioner.cli.installed
sys.argv = ["tpu-provisioner", "--version"]
try:
    tpu_provisioner.cli.installed.main()
except SystemExit:
    pass
print(json.dumps({name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy, because setuptools writes beside its sources."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns(*NOT_SOURCES))
    options = ("--wheel", "--no-build-isolation", f"--out-dir={folder}")
    run_program(UV, "build", *OFFLINE, *options, folder / "source", seconds=280, succeeds=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a folder of its own, beside the packages of this environment."""
    folder = tmp_path_factory.mktemp("installed")
    run_program(UV, "pip", "install", *OFFLINE, "--no-deps", f"--target={folder}", wheel, succeeds=True)
    return folder


def run_installed(installed: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONPATH": str(installed)}
    return run_program(*command, cwd=installed, env=environ, seconds=280, succeeds=True)


def test_the_wheel_holds_the_packages_of_the_command_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = {name for name in packed.namelist() if ".dist-info/" not in name}
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*"))
    sources = {path.relative_to(ROOT).as_posix() for path in files if path.suffix in PACKED}

    assert len(names) > 50
    assert names == {f"tpu_provisioner/{name}" for name in sources}


@pytest.mark.parametrize("name", ["LICENSE", "NOTICE"])
def test_the_wheel_holds_the_licence_and_the_notice(wheel: Path, name: str) -> None:
    with zipfile.ZipFile(wheel) as packed:
        found = packed.read(f"tpu_provisioner-{VERSION}.dist-info/licenses/{name}")

    assert found == (ROOT / name).read_bytes()


def test_the_installed_command_runs_from_another_folder(installed: Path) -> None:
    command = str(installed / "bin/tpu-provisioner")
    planned = run_installed(installed, command, "plan", str(ROOT / "examples/v6e-two-slices.yaml"), "-o", "json")

    assert run_installed(installed, command, "--version").stdout == f"tpu-provisioner {VERSION}\n"
    (need,) = json.loads(planned.stdout)["needs"]
    assert need["pools"] == 2


def list_needed(names: Iterable[str]) -> set[str]:
    """Return these distributions and all that they need in turn, by their normal names."""
    needed: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(name) for name in names]
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in needed:
            continue
        needed.add((name, extras))
        environments = [{"extra": extra} for extra in ("", *extras)]
        waiting += [
            each
            for each in map(Requirement, metadata.requires(name) or ())
            if each.marker is None or any(each.marker.evaluate(environment) for environment in environments)
        ]
    return {name for name, _ in needed}


def test_the_command_imports_itself_and_what_its_requirements_bring(installed: Path) -> None:
    output = run_installed(installed, sys.executable, "-c", ASK_FOR_FILES).stdout
    files = json.loads(output.splitlines()[-1])
    lines = (ROOT / "requirements/cli.in").read_text().splitlines()
    needed = list_needed(line for line in lines if not line.startswith("#"))
    owners = metadata.packages_distributions()
    foreign = {
        top: owners[top]
        for top in {name.partition(".")[0] for name, file in files.items() if "site-packages" in file}
        if top in owners and not {canonicalize_name(name) for name in owners[top]} & needed
    }
    ours = [file for name, file in files.items() if name.partition(".")[0] in PACKAGES]

    # Loaded by setuptools' own .pth file in every process, and by oauthlib where it is installed.
    assert foreign.keys() <= {"_distutils_hack", "blinker"}
    assert len(ours) > 50
    assert all(Path(file).is_relative_to(installed) for file in ours)


def test_users_and_tests_build_with_the_same_version() -> None:
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]

    assert backend in (ROOT / "requirements/development.in").read_text().splitlines()
    assert backend == f"setuptools=={metadata.version('setuptools')}"
