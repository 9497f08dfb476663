"""The wheel that `pipx install .` builds: the command, what it imports, the licence, no more.

Built without the network by the build backend that requirements/development.in pins.
"""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from shared import VERSION
from tests.packaging.libraries import list_pinned, run_alone
from tests.program_runs import run_program, run_python

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("cli", "shared")
PACKED = (".py", ".html", ".json", ".yaml", ".md")
LICENCES = {f"tpu_provisioner-{VERSION}.dist-info/licenses/{name}": name for name in ("LICENSE", "NOTICE")}
OF_UV = {"bin/tpu-provisioner", ".lock"}  # what it makes in the folder beside the wheel's files
NOT_SOURCES = (".*", "__pycache__", "build", "*.egg-info")
UV = Path(sys.executable).with_name("uv")  # as requirements/development.in pins it
OFFLINE = ("--quiet", "--offline", f"--python={sys.executable}")
IMPORT_ALL = """
import pkgutil, sys
import tpu_provisioner
sys.path[:0] = tpu_provisioner.__path__
for name in ("cli", "shared"):
    for module in pkgutil.walk_packages([f"{sys.path[0]}/{name}"], f"{name}."):
        if not module.name.endswith("__main__"):
            print(__import__(module.name, fromlist=["_"]).__file__)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and install it alone into a folder, beside this environment's packages."""
    source, folder = tmp_path_factory.mktemp("wheel") / "source", tmp_path_factory.mktemp("installed")
    # From a copy, because setuptools writes beside its sources.
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_SOURCES))
    options = ("--no-build-isolation", "--no-deps", f"--target={folder}")
    run_program(UV, "pip", "install", *OFFLINE, *options, source, seconds=280, succeeds=True)
    return folder


def test_the_wheel_holds_the_packages_of_the_command_its_licences_and_nothing_else(installed: Path) -> None:
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*"))
    sources = {f"tpu_provisioner/{path.relative_to(ROOT)}" for path in files if path.suffix in PACKED}
    names = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}

    assert len(sources) > 50
    assert {name for name in names if ".dist-info/" not in name} == sources | OF_UV
    for name, own in LICENCES.items():
        assert (installed / name).read_bytes() == (ROOT / own).read_bytes()


def test_the_installed_command_runs_from_another_folder_and_a_checkout_without_installation(
    installed: Path,
) -> None:
    def run(*words: str) -> str:
        environ = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONPATH": str(installed)}
        command = installed / "bin/tpu-provisioner"
        return run_program(command, *words, cwd=installed, env=environ, seconds=280, succeeds=True).stdout

    (need,) = json.loads(run("plan", str(ROOT / "examples/v6e-two-slices.yaml"), "-o", "json"))["needs"]
    assert need["pools"] == 2
    assert run("--version") == f"tpu-provisioner {VERSION}\n"
    refused = {"PATH": "/usr/bin:/bin", "TPU_PROVISIONER_MODUS": "a setting that is refused"}
    checkout = run_python("-m", "cli", "--version", cwd=ROOT, env=refused)
    assert checkout.stdout == f"tpu-provisioner {VERSION}\n"


def test_all_of_it_imports_itself_and_what_its_requirements_bring(installed: Path, tmp_path: Path) -> None:
    options = [f"--package={name}" for name in list_pinned(ROOT / "requirements/cli.in")]
    tree = run_program(UV, "pip", "tree", "--offline", f"--python={sys.executable}", *options, succeeds=True)
    names = set(re.findall(r"^\W*([\w.-]+) v", tree.stdout, re.MULTILINE))
    output = run_alone(IMPORT_ALL, names, tmp_path, cwd=installed)

    files = [Path(line) for line in output.splitlines()]
    assert len(files) > 50
    assert all(path.is_relative_to(installed) for path in files)
