"""What the rules make of the plain case's pods: the demand, or why there is none."""

from typing import Any

from shared.model.workloads import PodView, WorkloadView
from shared.needs.demand import Demand
from shared.needs.demands import decide_demand
from shared.settings import Settings
from tests.builders import CLUSTER, a_jobset, a_pod, settings


def a_demand(
    *, pod: PodView | None = None, jobset: WorkloadView | None = None, use: Settings | None = None, **shape: Any
) -> Demand:
    """The demand of a leader pod, read by the real rule; `shape` goes to `a_template`."""
    pod = pod or a_pod(shape=shape)
    jobset = jobset or a_jobset(namespace=pod.namespace, template=pod.template)
    return expect_demand(decide_demand(CLUSTER, pod, jobset, use or settings()))


def expect_demand(found: object) -> Demand:
    """Return what a rule found, which must be a demand."""
    assert isinstance(found, Demand), found
    return found
