"""Pools that none of their pods could use are made so that they can."""

import pytest

from shared.core import labels
from tests.kinds.living import LONG
from tests.kinds.plain import Plain, a_gpu_pod, ask
from tests.lives.cloud import Cloud
from tests.lives.jobset_bodies import RUN_SECONDS, Job, alone, jobset

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


def test_a_slice_whose_author_leaves_hosts_idle_gets_its_pool(cloud: Cloud) -> None:
    life = Plain(cloud, "idle", "JobSet")
    does = {RUN_SECONDS: str(LONG), labels.PARTIAL_SLICE: "true"}
    life.create(alone(jobset("idle", Job(topology="4x4", pods=3, does=does))))
    life.wait_running(3)
    assert len(life.pools()) == 1
    life.end(pools=1)


def test_pods_with_much_ephemeral_storage_get_a_boot_disk_that_has_it(cloud: Cloud) -> None:
    life = Plain(cloud, "roomy", "Job")
    life.submit(ask(a_gpu_pod("roomy"), **{"ephemeral-storage": "120Gi"}))
    life.wait_running(1)
    life.end(pools=1)
