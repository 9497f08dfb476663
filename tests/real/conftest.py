"""The project, the budget and the clean-up of the questions: ``pytest tests/real --project=…``.

Each question creates node pools of its own in a test cluster, and deletes them. All are without
nodes, but those of ``--tpu``.
"""

import json
import os
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from cli.access.connections import open_deployment
from cli.access.deployment import Choice, resolve
from shared.settings import name_variable
from tests.real.lab import Lab

MINUTES = 6  # what a question may take, unless its marker says more
OPTIONS = {
    "project": ("", "the project to ask in"),
    "name": ("", "the deployment's name there; empty: the default"),
    "cluster": ("", "one cluster of it; LOCATION/NAME: a cluster without a deployment"),
    "tpu": ("", "MACHINE:TOPOLOGY: also create slices of this machine, in --zone; they can cost money"),
    "zone": ("", "zone of new pools"),
    "minutes": ("60", "ask nothing that may end later"),
    "dollars": ("0", "ask nothing that may cost more, by list price"),
    "run": ("test", "name of the run; a further run of this name deletes what a killed one left"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    for name, (default, text) in OPTIONS.items():
        parser.addoption(f"--{name}", default=default, help=text)


@pytest.fixture(scope="session")
def asked(request: pytest.FixtureRequest) -> SimpleNamespace:
    """What the options say, with the time when the budget is over."""
    found = {name: request.config.getoption(name, default=default) for name, (default, _) in OPTIONS.items()}
    if not found["project"]:
        pytest.exit("--project: is required; valid: --project=ID", returncode=2)
    return SimpleNamespace(**found, ends_at=time.time() + 60 * float(found["minutes"]))


@pytest.fixture(scope="session")
def session_lab(asked: SimpleNamespace) -> Lab:
    """One lab for all questions: in a cluster of the deployment, or in one without it."""
    location, _, name = asked.cluster.rpartition("/")
    environ: dict[str, str] = {**os.environ}
    if location:
        whole = f"projects/{asked.project}/locations/{location}/clusters/{name}"
        environ[name_variable("clusters")] = json.dumps({whole: {"endpoint": "https://unknown"}})
    else:
        environ = resolve(environ, Choice(project=asked.project, name=asked.name, cluster=name), say=print)
    there = open_deployment(environ)
    found = Lab(there, next(iter(there.ports.clusters)), asked.run, asked.tpu, asked.zone)
    if found.read("").get("autopilot", {}).get("enabled"):
        pytest.exit(f"CLUSTER: {found.cluster} is an Autopilot cluster; valid: a Standard cluster", returncode=2)
    return found


@pytest.fixture
def lab(session_lab: Lab, asked: SimpleNamespace, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A lab without pools, within the budget; its pools are deleted after the question."""
    marker = request.node.get_closest_marker("minutes")
    seconds = 60 * (marker.args[0] if marker else MINUTES)
    if session_lab.now() + seconds > asked.ends_at:
        pytest.skip(f"it takes up to {seconds // 60} minutes, and --minutes leaves less")
    session_lab.clean()
    session_lab.deadline = session_lab.now() + seconds
    yield session_lab
    session_lab.clean()
