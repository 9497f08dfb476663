"""A suspended JobSet that waits for capacity has pools for all slices before any pod, or none."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from demo.stack.clusters import ClusterKind
from demo.stack.commands import StackSettings
from demo.stack.stack import Stack
from shared.core import labels
from standins.controlplane.plane import ControlPlane
from tests.clusters import SPEEDS
from tests.kinds.living import LIVED, LONG, Life
from tests.kinds.optional_rights import read_optional_rights
from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import PINNED, RUN_SECONDS, Job, jobset

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
Json = dict[str, Any]
FOLDER = "capacity-first"
PARTIAL_SECONDS = 15
"""Real ones, for which a part of a JobSet's pools is held."""


@pytest.fixture(scope="module")
def own_plane(cluster_kind: ClusterKind, request: pytest.FixtureRequest) -> ControlPlane | None:
    """A real control plane of its own with the optional roles; None for the embedded cluster."""
    if cluster_kind is not ClusterKind.REAL:
        return None
    plane: ControlPlane = request.getfixturevalue("plane_with")()
    plane.apply(read_optional_rights(FOLDER))
    return plane


@pytest.fixture(scope="module")
def stack(
    cluster_kind: ClusterKind, own_plane: ControlPlane | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    speed = SPEEDS[cluster_kind]
    settings = StackSettings(
        speed=speed,
        cluster=cluster_kind,
        capacity_first=True,
        release_partial_virtual_seconds=PARTIAL_SECONDS * speed,
    )
    with Stack(tmp_path_factory.mktemp("first"), settings, plane=own_plane) as stack:
        yield stack


def suspended(life: Life, **marks: str) -> Json:
    """Return a JobSet of two slices that asks for its capacity."""
    asks = {labels.CAPACITY_FIRST: "true"} | marks
    body = jobset(life.name, Job(replicas=2, does={RUN_SECONDS: str(LONG)}), suspend=True)
    body["metadata"]["annotations"] = body["metadata"].get("annotations", {}) | asks
    return body


def read(life: Life) -> tuple[bool, Json]:
    found = life.cloud.get(life.path) or {}
    return found["spec"].get("suspend", False), found["metadata"].get("annotations", {})


def test_a_suspended_jobset_is_resumed_once_when_all_of_its_pools_run(cloud: Cloud) -> None:
    life = Life(cloud, "first", "JobSet")
    life.create(suspended(life))

    pools = wait_for("two pools", lambda: life.pools() if len(life.pools()) == 2 else None)
    assert (read(life)[0], life.pods()) == (True, [])
    assert life.pools_of(life.wait_running(4)) == set(pools) == set(life.pools())
    held, marks = read(life)
    assert (held, labels.CAPACITY_FIRST_RESUMED in marks) == (False, True)

    life.change(suspend=True)  # by a person, who is not overruled
    life.wait_nothing_left()
    assert read(life)[0]
    life.expect_given_back(2)
    life.delete()


def test_pools_that_do_not_all_run_in_time_are_given_back_and_the_jobset_stays_suspended(
    cloud: Cloud, cluster_kind: ClusterKind
) -> None:
    life = Life(cloud, "part", "JobSet")
    LIVED.remove(life)  # the wait is a minute of real time, in which a fast cluster is swept a dozen times
    late = 70 * SPEEDS[cluster_kind]  # GKE deletes no pool that it still creates
    fault = cloud.add_fault("duration", pool="part-slice-1-*", operation="create", seconds=late)
    life.create(suspended(life, **{labels.CAPACITY_FIRST_SECONDS: "60"}))

    wait_for("the next round", lambda: read(life)[1].get(labels.CAPACITY_FIRST_ROUND, "").startswith("1 from"))
    life.wait_nothing_left()
    assert (read(life)[0], life.pods()) == (True, [])
    cloud.clear_fault(fault)
    life.delete()


def test_a_jobset_that_runs_in_part_is_suspended_gives_its_pool_back_and_is_served_whole_in_the_next_round(
    cloud: Cloud,
) -> None:
    life = Life(cloud, "torn", "JobSet")
    LIVED.remove(life)  # the pause is a minute of real time too
    fault = cloud.add_fault("outcome", pool="torn-slice-1-*", kind="stockout", seconds=120)
    # Pinned, because else the second slice may take the pool of the first one.
    life.create(jobset(life.name, Job(replicas=2, does={RUN_SECONDS: str(LONG)}), annotations=PINNED))
    (first,) = life.pools_of(life.wait_running(2))

    wait_for("it is suspended", lambda: read(life)[0])
    assert first.startswith("torn-slice-0-")
    assert read(life)[1][labels.CAPACITY_FIRST_ROUND].startswith("1 from")
    life.wait_message("1 of 2 slices have node pools")
    life.wait_nothing_left()
    assert (read(life)[0], life.pods()) == (True, [])

    cloud.clear_fault(fault)
    assert life.pools_of(life.wait_running(4)) == set(life.pools())
    assert len(life.pools()) == 2
    held, marks = read(life)
    assert (held, labels.CAPACITY_FIRST_RESUMED in marks) == (False, True)
    life.end()


def test_without_the_right_to_change_it_the_jobset_is_told_and_nothing_is_bought(
    cloud: Cloud, own_plane: ControlPlane | None
) -> None:
    if own_plane is None:  # the embedded cluster knows no rights, so there is nothing to take away
        life = Life(cloud, "free", "JobSet")
        life.create(suspended(life))
        life.wait_running(4)
        life.end()
        return
    lesser = copy.deepcopy(read_optional_rights(FOLDER))
    role = next(each for each in lesser if each["metadata"]["name"] == "tpu-provisioner-capacity-first")
    role["rules"] = [rule for rule in role["rules"] if "jobsets" not in rule["resources"]]
    own_plane.apply([role])
    life = Life(cloud, "denied", "JobSet")
    life.create(suspended(life))

    assert "permission_denied" in life.wait_message("patch")
    assert life.calls() == []
    own_plane.apply(read_optional_rights(FOLDER))
    life.wait_running(4)  # the sweep tries again
    life.end()
