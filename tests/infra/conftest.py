"""Fixtures of the tests of the build's scripts: a pretended cloud, and a mock of Google Cloud."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from standins.googlecloud.mock_program import MockCloud
from tests.deploy.created_objects import CreatedObjects, look_at
from tests.infra.build_scripts import COMMAND_LINES, PROVISION, Bench
from tests.infra.mock_google_cloud import HOST_PROJECT, describe_programs, serve_mock
from tests.program_runs import run_program

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


@pytest.fixture(scope="module")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockCloud]:
    """With an empty project, in which no API is enabled, and one for a Shared VPC."""
    folder = tmp_path_factory.mktemp("cloud")
    with serve_mock(folder, require_enabled=True, other_projects=(HOST_PROJECT,)) as made:
        yield made


@pytest.fixture(scope="module")
def created(mock: MockCloud) -> Iterator[CreatedObjects]:
    with look_at(mock) as found:
        yield found


@pytest.fixture(scope="module")
def environ(mock: MockCloud) -> dict[str, str]:
    """That in which gcloud and terraform reach the mock; first, a person enables some APIs."""
    described = describe_programs(mock.folder, mock)
    apis = [f"{each}.googleapis.com" for each in ("cloudbuild", "iam", "cloudresourcemanager")]
    run_program("gcloud", "services", "enable", *apis, env=described, succeeds=True)
    return described
