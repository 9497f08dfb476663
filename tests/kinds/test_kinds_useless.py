"""Pools that none of their pods could use: refused, or made so that they can."""

import pytest

from shared.core import labels
from tests.kinds.living import LONG
from tests.kinds.plain import Plain, a_gpu_pod, a_tpu_pod, ask
from tests.lives.cloud import Cloud
from tests.lives.jobset_bodies import RUN_SECONDS, Job, alone, jobset

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


def submit_jobset(cloud: Cloud, name: str, pods: int) -> Plain:
    """Create a JobSet of one 4x4 slice, which has four hosts, with so many pods."""
    life = Plain(cloud, name, "JobSet")
    life.create(alone(jobset(name, Job(topology="4x4", pods=pods, does={RUN_SECONDS: str(LONG)}))))
    return life


@pytest.mark.parametrize("pods", [3, 8])
def test_pods_that_are_not_one_for_each_host_get_no_pool(cloud: Cloud, pods: int) -> None:
    life = submit_jobset(cloud, f"uneven{pods}", pods)
    life.expect_refusal("[hosts_differ]", "valid: 4; or")


def test_a_slice_whose_author_leaves_hosts_idle_gets_its_pool(cloud: Cloud) -> None:
    life = Plain(cloud, "idle", "JobSet")
    does = {RUN_SECONDS: str(LONG), labels.PARTIAL_SLICE: "true"}
    life.create(alone(jobset("idle", Job(topology="4x4", pods=3, does=does))))
    life.wait_running(3)
    assert len(life.pools()) == 1
    life.end(pools=1)


def test_a_pod_that_no_host_has_room_for_gets_no_pool(cloud: Cloud) -> None:
    life = Plain(cloud, "roomless", "Job")
    life.submit(ask(a_tpu_pod("roomless", "2x2"), cpu="1000"))
    life.expect_refusal("[shape_unsupported]", "at most cpu 179.18")


def test_pods_with_much_ephemeral_storage_get_a_boot_disk_that_has_it(cloud: Cloud) -> None:
    life = Plain(cloud, "roomy", "Job")
    life.submit(ask(a_gpu_pod("roomy"), **{"ephemeral-storage": "120Gi"}))
    life.wait_running(1)
    life.end(pools=1)


def test_a_misspelt_opt_out_buys_nothing(cloud: Cloud) -> None:
    life = Plain(cloud, "misspelt", "Job")
    template = a_tpu_pod("misspelt", "2x2")
    template["metadata"]["annotations"]["tpu-provisioner.cloud.google.com/disable-autoprovision"] = "true"
    life.submit(template)
    life.expect_refusal(f"valid: {labels.DISABLE_AUTOPROVISIONING}")


def test_a_bare_pod_that_does_not_tolerate_its_nodes_gets_no_pool(cloud: Cloud) -> None:
    life = Plain(cloud, "barred", "Pod")
    template = a_tpu_pod("barred", "2x2")
    del template["spec"]["containers"][0]["resources"]  # so GKE adds no toleration
    life.submit_pod(template)
    life.expect_refusal(
        "does not tolerate their taint google.com/tpu=present:NoSchedule",
        "valid: google.com/tpu in the limits of a container",
    )


def test_a_bare_pod_with_much_ephemeral_storage_gets_a_boot_disk_that_has_it(cloud: Cloud) -> None:
    life = Plain(cloud, "laden", "Pod")
    life.submit_pod(ask(a_tpu_pod("laden", "2x2"), **{"ephemeral-storage": "120Gi"}))
    life.wait_running(1)
    life.end(pools=1)
