"""Parts are killed, paused, started again and set back, as tests of our code need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from controlplane_worlds import World, jobset, wait_for

from local.controlplane.commands import API_SERVER, CONTROLLERS, JOBSET, Choices
from local.controlplane.plane import ControlPlane, ProcessDied
from shared.core.errors import NotFound, ProvisionerError, Unavailable
from shared.edges.kubernetes_objects import Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.controlplane.cache import Build

pytestmark = pytest.mark.cluster

NAMESPACES = "/api/v1/namespaces"


@pytest.fixture(scope="module")
def bare(build: Build) -> Iterator[ControlPlane]:
    """A control plane of this file's own, at first without JobSet."""
    with ControlPlane(build, Choices(jobset=False)) as plane:
        yield plane


def test_a_killed_api_server_comes_back_with_its_data(bare: ControlPlane):
    bare.api.create(NAMESPACES, {"metadata": {"name": "kept"}})
    bare.kill(API_SERVER)
    with pytest.raises(Unavailable):
        bare.api.get(f"{NAMESPACES}/kept", Stored)
    bare.check()
    bare.start(API_SERVER)

    assert bare.api.get(f"{NAMESPACES}/kept", Stored).metadata.name == "kept"


def test_data_can_be_set_back_as_by_a_restored_backup(bare: ControlPlane):
    bare.api.create(NAMESPACES, {"metadata": {"name": "before"}})
    saved = bare.save_data()
    bare.api.create(NAMESPACES, {"metadata": {"name": "after"}})
    bare.restore_data(saved)

    assert bare.api.get(f"{NAMESPACES}/before", Stored).metadata.name == "before"
    with pytest.raises(NotFound):
        bare.api.get(f"{NAMESPACES}/after", Stored)


def test_a_paused_part_does_nothing_until_it_is_resumed(bare: ControlPlane):
    bare.pause(CONTROLLERS)
    bare.api.create(NAMESPACES, {"metadata": {"name": "paused"}})
    assert bare.api.get(f"{NAMESPACES}/paused/serviceaccounts", dict)["items"] == []
    bare.resume(CONTROLLERS)

    wait_for("the account", lambda: bare.api.get(f"{NAMESPACES}/paused/serviceaccounts", dict)["items"])


def test_jobset_can_be_installed_later_and_its_webhooks_can_be_down(bare: ControlPlane):
    with pytest.raises(NotFound):
        bare.api.get("/apis/jobset.x-k8s.io/v1alpha2/jobsets", dict)
    bare.install_jobset()
    world = World(bare.api, "later")
    bare.kill(JOBSET)
    with pytest.raises(ProvisionerError, match=r'failed calling webhook "mjobset\.kb\.io"'):
        world.submit(jobset("train"))
    bare.start(JOBSET)
    wait_for("an admitted JobSet", lambda: _submitted(world))

    wait_for("its leaders", lambda: len(world.pods()) == 2)


def _submitted(world: World) -> bool:
    try:
        world.submit(jobset("train"))
    except ProvisionerError:
        return False
    return True


def test_a_part_that_ends_by_itself_is_reported_by_name(bare: ControlPlane):
    bare.processes  # noqa: B018 -- that it can be asked at any time
    bare._children[JOBSET].kill()

    with pytest.raises(ProcessDied, match="the process 'jobset' ended with code -9"):
        bare.check()
    bare.start(JOBSET)
    bare.check()


@pytest.mark.parametrize("call", ["kill", "pause", "resume", "start"])
def test_an_unknown_part_is_refused_by_name(bare: ControlPlane, call: str):
    with pytest.raises(KeyError, match=r"no process 'kubelet'; there are: etcd, kube-apiserver"):
        getattr(bare, call)("kubelet")


def test_a_part_that_runs_is_not_started_twice(bare: ControlPlane):
    with pytest.raises(ValueError, match="runs already"):
        bare.start(API_SERVER)
