"""JobSets of Pathways: a head without chips beside slices of workers, and whose slice it is."""

from typing import Any

from shared.edges.pods import read_template
from shared.kinds.jobset import EXCLUSIVE_TOPOLOGY, JOBSET, NODE_SELECTOR_STRATEGY
from shared.model import labels
from shared.model.workloads import PodView, WorkloadView
from tests.builders import JOBSET_UID, a_pod, a_template
from tests.demands import want
from tests.rows import rows
from tests.slices import list_slices

EXCLUSIVE = {EXCLUSIVE_TOPOLOGY: labels.NODE_POOL}
ON_SLICE = {labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "4x4"}


def a_job(
    name: str,
    *,
    chips: int = 0,
    replicas: int = 1,
    selector: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **pod: Any,
) -> dict[str, Any]:
    """A replicated job; the annotations stand on its pods, where Pathways writes them."""
    container = {"name": "c", "resources": {"limits": {labels.TPU_RESOURCE: chips}} if chips else {}}
    free = [] if chips else [{"key": labels.TPU_RESOURCE, "operator": "Exists"}]
    chosen = ON_SLICE if selector is None else selector
    spec = {"nodeSelector": chosen, "tolerations": free, "containers": [container], **pod}
    template = {"metadata": {"annotations": annotations or {}}, "spec": spec}
    pods = {"parallelism": 4 if chips else 1, "completions": 4 if chips else 1}
    return {"name": name, "replicas": replicas, "template": {"spec": pods | {"template": template}}}


def a_pathways(
    *, head: dict[str, Any] | None = None, of_jobset: dict[str, str] | None = None, **workers: Any
) -> WorkloadView:
    jobs = [a_job("pathways-head", **(head or {})), a_job("worker", **{"chips": 4, "replicas": 2} | workers)]
    body = {
        "metadata": {"namespace": "default", "name": "train", "uid": JOBSET_UID, "annotations": of_jobset or {}},
        "spec": {"replicatedJobs": jobs},
    }
    return JOBSET.read(body, read_template)


def a_head(**overrides: Any) -> PodView:
    return a_pod(job="pathways-head", template=a_template(chips=0), **overrides)


def test_a_head_on_the_nodes_of_its_workers_is_of_their_first_slice() -> None:
    workload = a_pathways()

    wanted = want(workload, a_head(), a_pod(job="worker"))

    assert {(pod.need, pod.slice) for pod in wanted.pods} == {(wanted.needs[0].key, "train-worker-0")}
    assert [(need.most, need.hosts) for need in wanted.needs] == [(2, 4)]
    assert [each.name for each in list_slices(workload)] == ["train-worker-0", "train-worker-1"]


@rows(
    "workload",
    {
        "the head selects other nodes": a_pathways(head={"selector": {**ON_SLICE, "team": "a"}}),
        "the head asks for chips itself": a_pathways(head={"chips": 4}),
        "several heads": a_pathways(head={"replicas": 2}),
        "each Job is pinned to its nodes": a_pathways(of_jobset={**EXCLUSIVE, NODE_SELECTOR_STRATEGY: "true"}),
    },
)
def test_a_head_that_cannot_share_nodes_with_workers_has_a_slice_of_its_own(workload: WorkloadView) -> None:
    names = [each.name for each in list_slices(workload)]

    assert "train-pathways-head-0" in names
    assert names[-2:] == ["train-worker-0", "train-worker-1"]


def test_exclusive_workers_leave_the_head_on_their_pool() -> None:
    """As the PathwaysJob controller writes it: the annotation stands on the pods of the workers."""
    workload = a_pathways(annotations=EXCLUSIVE, priorityClassName="workers")

    assert [each.name for each in list_slices(workload)] == ["train-worker-0", "train-worker-1"]


def test_a_head_on_a_cpu_node_asks_for_no_slice() -> None:
    workload = a_pathways(head={"selector": {}})

    assert [group.beside for group in workload.groups] == [""]
    assert [(need.most, need.hosts, need.never) for need in want(workload).needs] == [(2, 4, None)]
