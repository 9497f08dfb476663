"""Plain Jobs from first pod to last pool: exporter, functions, GKE and kubelet, both clusters."""

from typing import Any

import pytest

from demo.settings import TOPIC
from tests.kinds.living import LONG
from tests.kinds.plain import Plain, a_tpu_pod
from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import HOSTS, RUN_SECONDS, Job, alone, jobset

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


def submit(cloud: Cloud, name: str, topology: str, pods: int = 0, **spec: Any) -> Plain:
    """Create an indexed Job; one pod for each host of the topology unless a number is given."""
    life = Plain(cloud, name, "Job")
    usual = {"completionMode": "Indexed", "backoffLimit": 0}
    life.submit(a_tpu_pod(name, topology), pods or HOSTS[topology], **usual | spec)
    return life


def test_an_indexed_job_of_several_hosts_has_one_pool_until_it_is_complete(cloud: Cloud) -> None:
    life = submit(cloud, "whole", "4x4")
    life.expect_one_pool(life.wait_running(4))
    life.finish()
    life.wait_nothing_left()
    life.expect_given_back(1)


def test_on_single_hosts_each_index_has_a_pool_of_its_own_until_the_last_is_done(cloud: Cloud) -> None:
    life = submit(cloud, "hosts", "2x2", pods=3)
    pods = life.wait_running(3)
    assert len(life.pools()) == 3
    assert life.pools_of(pods) == set(life.pools())
    life.finish()
    life.wait_nothing_left()
    life.expect_given_back(3)


def test_the_jobs_of_another_workload_are_spoken_of_as_that_workload_alone(cloud: Cloud) -> None:
    life = Plain(cloud, "part", "JobSet")
    life.create(alone(jobset(life.name, Job(does={RUN_SECONDS: str(LONG)}))))
    life.wait_running(2)
    life.end()

    def read_messages() -> list[dict[str, Any]]:
        return [each for each in cloud.messages(TOPIC) if each["namespace"] == life.namespace]

    # A tick may have been faster than the word of the JobSet's end.
    wait_for("the word of both", lambda: len({each["attributes"]["ce-type"] for each in read_messages()}) > 1)
    assert {each["kind"] for each in read_messages()} == {"JobSet"}
    assert life.accepted("CreateNodePool") == 1
