"""Parts are killed, paused, started again and set back, as tests of our code need it."""

import os
import signal
from collections.abc import Iterator

import httpx
import pytest

from standins.controlplane.api_client import exists
from standins.controlplane.cache import Build
from standins.controlplane.commands import API_SERVER, CONTROLLERS, JOBSET, Choices
from standins.controlplane.plane import ControlPlane, ProcessDied
from standins.controlplane.tests.controlplane_worlds import World, jobset, wait_for

pytestmark = pytest.mark.cluster

NAMESPACES = "/api/v1/namespaces"


@pytest.fixture(scope="module")
def bare(build: Build) -> Iterator[ControlPlane]:
    """A control plane of this file's own, at first without JobSet."""
    with ControlPlane(build, Choices(jobset=False)) as plane:
        yield plane


def test_a_killed_api_server_comes_back_with_its_data(bare: ControlPlane) -> None:
    bare.api.post(NAMESPACES, json={"metadata": {"name": "kept"}})
    bare.kill(API_SERVER)
    with pytest.raises(httpx.TransportError):
        bare.api.get(f"{NAMESPACES}/kept")
    bare.check()
    bare.start(API_SERVER)

    assert exists(bare.api, f"{NAMESPACES}/kept")


def test_data_can_be_set_back_as_by_a_restored_backup(bare: ControlPlane) -> None:
    bare.api.post(NAMESPACES, json={"metadata": {"name": "before"}})
    saved = bare.save_data()
    bare.api.post(NAMESPACES, json={"metadata": {"name": "after"}})
    bare.restore_data(saved)

    assert exists(bare.api, f"{NAMESPACES}/before")
    assert not exists(bare.api, f"{NAMESPACES}/after")


def test_a_paused_part_does_nothing_until_it_is_resumed(bare: ControlPlane) -> None:
    bare.pause(CONTROLLERS)
    bare.api.post(NAMESPACES, json={"metadata": {"name": "paused"}})
    assert bare.api.get(f"{NAMESPACES}/paused/serviceaccounts").json()["items"] == []
    bare.resume(CONTROLLERS)

    wait_for("the account", lambda: bare.api.get(f"{NAMESPACES}/paused/serviceaccounts").json()["items"])


def test_jobset_can_be_installed_later_and_its_webhooks_can_be_down(bare: ControlPlane) -> None:
    assert not exists(bare.api, "/apis/jobset.x-k8s.io/v1alpha2/jobsets")
    bare.install_jobset()
    world = World(bare)
    bare.kill(JOBSET)
    with pytest.raises(httpx.HTTPStatusError, match=r'failed calling webhook \\"mjobset\.kb\.io'):
        world.submit(jobset("train"))
    bare.start(JOBSET)
    wait_for("an admitted JobSet", lambda: _submitted(world))

    wait_for("its leaders", lambda: len(world.pods()) == 2)


def _submitted(world: World) -> bool:
    try:
        world.submit(jobset("train"))
    except httpx.HTTPStatusError:
        return False
    return True


def test_a_part_that_ends_by_itself_is_reported_by_name(bare: ControlPlane) -> None:
    os.kill(bare.processes[CONTROLLERS], signal.SIGKILL)
    wait_for("its end", lambda: CONTROLLERS not in bare.processes)

    with pytest.raises(ProcessDied, match=f"the process '{CONTROLLERS}' ended with code -9"):
        bare.check()
    bare.start(CONTROLLERS)
    bare.check()
