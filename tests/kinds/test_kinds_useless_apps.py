"""Pools that no replica of a Deployment or StatefulSet could use are refused, or made usable.

On the real control plane only: the embedded cluster has no controllers for these.
"""

import pytest

from tests.clusters import ON_REAL
from tests.kinds.plain import Plain, a_gpu_pod, a_tpu_pod, ask
from tests.lives.cloud import Cloud

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow, ON_REAL]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_replicas_that_must_be_apart_by_a_label_that_all_nodes_of_a_pool_share_get_no_pool(cloud: Cloud) -> None:
    life = Plain(cloud, "racked", "Deployment")
    term = {"labelSelector": {"matchLabels": {"app": "racked"}}, "topologyKey": "example.com/rack"}
    life.submit(a_gpu_pod("racked", affinity={"podAntiAffinity": {REQUIRED: [term]}}), 2)
    life.expect_refusal("podAntiAffinity example.com/rack", "valid: topologyKey kubernetes.io/hostname")


def test_replicas_with_much_ephemeral_storage_get_boot_disks_that_have_it(cloud: Cloud) -> None:
    life = Plain(cloud, "cached", "Deployment")
    life.submit(ask(a_gpu_pod("cached"), **{"ephemeral-storage": "120Gi"}), 2)
    life.expect_one_pool(life.wait_running(2))
    life.end()
    assert life.accepted("DeleteNodePool") == 1


def test_a_stateful_set_with_fewer_replicas_than_hosts_gets_no_pool(cloud: Cloud) -> None:
    life = Plain(cloud, "sparse", "StatefulSet")
    life.submit(a_tpu_pod("sparse", "4x4"), 3, serviceName="sparse", podManagementPolicy="Parallel")
    life.expect_refusal("[hosts_differ]", "valid: 4; or")


def test_a_stateful_set_whose_replicas_fit_on_no_host_gets_no_pool(cloud: Cloud) -> None:
    life = Plain(cloud, "heavy", "StatefulSet")
    life.submit(ask(a_tpu_pod("heavy", "2x2"), cpu="1000"), 1, serviceName="heavy")
    life.expect_refusal("[shape_unsupported]", "at most cpu 179.18")
