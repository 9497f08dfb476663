"""Pods that must be together by their author's own node label: pools get it, or none is made."""

from typing import Any

import pytest

from tests.kinds.living import LONG
from tests.kinds.plain import Plain, a_tpu_pod
from tests.lives.cloud import Cloud
from tests.lives.jobset_bodies import RUN_SECONDS, Job, alone, jobset

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

KEY = "MultisliceGroup"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def together(key: str, name: str) -> dict[str, Any]:
    """Return the affinity of pods that run only beside pods with a label."""
    selector = {"matchExpressions": [{"key": key, "operator": "In", "values": [name]}]}
    return {"podAffinity": {REQUIRED: [{"labelSelector": selector, "topologyKey": KEY}]}}


def test_the_slices_of_a_jobset_that_must_be_together_get_pools_with_one_value(cloud: Cloud) -> None:
    life = Plain(cloud, "grouped", "JobSet")
    body = alone(jobset(life.name, Job(replicas=2, does={RUN_SECONDS: str(LONG)})))
    pod = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["affinity"] = together("jobset.sigs.k8s.io/jobset-name", life.name)
    life.create(body)

    pods = life.wait_running(4)
    assert life.pools_of(pods) == set(life.pools())
    nodes = [cloud.get(f"/api/v1/nodes/{each['spec']['nodeName']}") or {} for each in pods]
    assert {each["metadata"]["labels"][KEY] for each in nodes} == {f"{life.namespace}_{life.name}"}
    life.end(pools=2)


def test_pods_that_must_be_with_pods_of_another_workload_are_refused_with_what_to_change(cloud: Cloud) -> None:
    life = Plain(cloud, "guests", "Job")
    template = a_tpu_pod(life.name, "2x2", affinity=together("app", "hosts-of-guests"))
    life.submit(template, completionMode="Indexed", backoffLimit=0)

    life.expect_refusal(f"nodeSelector {KEY}", "selector_unsupported")
