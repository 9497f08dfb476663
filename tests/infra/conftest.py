"""Fixtures of the tests of the build's scripts: a pretended cloud."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.infra.build_scripts import COMMAND_LINES, PROVISION, Bench

Provisioned = Callable[[str], Path]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A pretended cloud with nothing in it."""
    return Bench.make(tmp_path)


@pytest.fixture(scope="session")
def provisioned(tmp_path_factory: pytest.TempPathFactory) -> Provisioned:
    """Return the folder of a bench that a command line has provisioned, once for all tests."""

    @functools.cache
    def provision(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        Bench.make(folder).run_all(PROVISION, COMMAND_LINES[name])
        return folder

    return provision


@pytest.fixture
def environment(provisioned: Provisioned, tmp_path: Path) -> Bench:
    """A bench with a provisioned environment."""
    return Bench.copy(provisioned("environment"), tmp_path / "bench")


@pytest.fixture
def beside(provisioned: Provisioned, tmp_path: Path) -> Bench:
    """A bench with a provisioner beside a cluster."""
    return Bench.copy(provisioned("beside"), tmp_path / "bench")
