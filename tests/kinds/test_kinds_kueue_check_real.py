"""Kueue itself with our admission check: node pools for all slices come before any pod, or the quota goes back."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from demo.stack.clusters import ClusterKind
from demo.stack.commands import StackSettings
from demo.stack.stack import Stack
from exporter.watched_kinds import watch_queues
from shared.core.errors import Denied
from shared.core.kueue import CONTROLLER
from shared.core.labels import CAPACITY_CHECKED
from shared.core.workloads import WorkloadView
from shared.edges.kubernetes_api import KubernetesApi, connection_from_kubeconfig
from shared.edges.kueue_objects import KueueQueues
from tests.clusters import SPEED
from tests.kinds.optional_rights import NAMESPACE, read_optional_rights
from tests.kinds.queues import API, LONG, V6E, Queue
from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import TOPOLOGY, Job, jobset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from standins.controlplane.plane import ControlPlane

KUEUE = "kueue-0.15"
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.controller(KUEUE),
    pytest.mark.timeout(900),
    pytest.mark.slow,
]
Json = dict[str, Any]
CHECK = "capacity"
FOLDER = "kueue"
GRACE_SECONDS = 20
SWEEP, EXPORTER = "tpu-provisioner-sweep", "tpu-provisioner-exporter"


@pytest.fixture(scope="module")
def plane(plane_with: Callable[..., ControlPlane]) -> ControlPlane:
    return plane_with(KUEUE)


@pytest.fixture(scope="module")
def stack(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = StackSettings(
        speed=SPEED,
        cluster=ClusterKind.REAL,
        grace_virtual_seconds=GRACE_SECONDS * SPEED,
        kueue_admission_check=True,
    )
    plane.apply(read_optional_rights(FOLDER))
    with Stack(tmp_path_factory.mktemp("check"), settings, plane=plane) as stack:
        yield stack


@pytest.fixture(scope="module")
def cloud(stack: Stack) -> Iterator[Cloud]:
    with Cloud(stack) as cloud:
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": CHECK}}
        cloud.create(f"{API}/admissionchecks", body | {"spec": {"controllerName": CONTROLLER}})
        wait_for("the check is active", lambda: _is_active(cloud))
        yield cloud


def _is_active(cloud: Cloud) -> bool:
    found = cloud.get(f"{API}/admissionchecks/{CHECK}") or {}
    conditions = found.get("status", {}).get("conditions", ())
    return any((each["type"], each["status"]) == ("Active", "True") for each in conditions)


def two_slices(name: str) -> Json:
    body = jobset(name, Job(replicas=2, does=LONG))
    body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {}
    return body


def test_all_pools_run_before_the_jobset_is_resumed_and_they_serve_its_pods(cloud: Cloud) -> None:
    queue = Queue(cloud, "check", V6E, chips=16, check=CHECK)
    queue.submit("JobSet", two_slices(queue.workload))

    pools = wait_for("two pools", lambda: queue.pools() if len(queue.pools()) == 2 else None)
    assert queue.is_suspended("JobSet")
    assert queue.pods() == []
    assert queue.check_state(queue.workload)["state"] == "Pending"
    pods = queue.wait_running(4)
    assert queue.conditions(queue.workload)["Admitted"] == "True Admitted"
    state = queue.check_state(queue.workload)
    assert (state["state"], "2 slices have their node pools" in state["message"]) == ("Ready", True)
    assert {pod["metadata"]["labels"][CAPACITY_CHECKED] for pod in pods} == {"true"}
    assert queue.pools_of(pods) == queue.pools() == pools
    queue.delete("JobSet")
    queue.clear()
    assert (queue.accepted("CreateNodePool"), queue.accepted("DeleteNodePool")) == (2, 2)


def test_a_stockout_of_one_slice_gives_the_other_pool_back_and_kueue_tries_again_after_a_pause(
    cloud: Cloud,
) -> None:
    queue = Queue(cloud, "dry", V6E, chips=16, check=CHECK)
    fault = cloud.add_fault("outcome", pool="dry-w-slice-1-*", kind="stockout", count=1)
    queue.submit("JobSet", two_slices(queue.workload))

    state = wait_for("the check is Retry", lambda: _find_state(queue, "Retry"))
    assert 60 <= state["requeueAfterSeconds"] <= 75
    assert "does not have enough resources" in state["message"]
    assert queue.is_suspended("JobSet")
    wait_for("all pools go", lambda: not queue.pools())
    state = wait_for("Kueue tries again", lambda: _find_state(queue, "Pending"))
    assert state["retryCount"] == 1
    assert queue.pools_of(queue.wait_running(4)) == queue.pools()
    cloud.clear_fault(fault)
    queue.delete("JobSet")
    queue.clear()
    assert (queue.accepted("CreateNodePool"), queue.accepted("DeleteNodePool")) == (4, 4)


def _find_state(queue: Queue, word: str) -> Json | None:
    state = queue.check_state(queue.workload)
    return state if state.get("state") == word else None


def test_what_can_never_be_is_rejected_with_its_reason(cloud: Cloud) -> None:
    queue = Queue(cloud, "never", V6E, chips=16, check=CHECK, shaped=False)
    body = two_slices(queue.workload)
    pod = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["nodeSelector"] = {TOPOLOGY: "3x7"}
    queue.submit("JobSet", body)

    wait_for("deactivated", lambda: "Previously: Rejected" in queue.check_state(queue.workload).get("message", ""))
    assert queue.conditions(queue.workload)["Evicted"].startswith("True Deactivated")
    assert any("3x7" in refusal for refusal in queue.refusals())
    assert queue.calls() == []
    queue.delete("JobSet")
    queue.clear()


@dataclasses.dataclass(frozen=True)
class Accounts:
    """Kueue as the sweep's own account and the exporter's see it."""

    queues: KueueQueues
    watching: KubernetesApi


@pytest.fixture
def accounts(plane: ControlPlane, cloud: Cloud, tmp_path: Path) -> Iterator[Accounts]:
    apis = []
    for name in (SWEEP, EXPORTER):
        plane.write_account_kubeconfig(tmp_path / name, NAMESPACE, name)
        apis.append(KubernetesApi(connection_from_kubeconfig(tmp_path / name)))
    yield Accounts(KueueQueues(apis[0]), apis[1])
    plane.apply(read_optional_rights(FOLDER))
    for api in apis:
        api.close()


def _act(accounts: Accounts, queue: Queue) -> None:
    """Do all that the sweep and the exporter ask of Kueue."""
    watched = watch_queues()
    (page, *_) = accounts.watching.list_pages(watched.path, watched.shape)
    version = {"resourceVersion": page.metadata.resource_version, "timeoutSeconds": "1"}
    with accounts.watching.watch(watched.path, version, watched.shape, silence_seconds=10) as watch:
        list(watch)
    queues = accounts.queues
    (check,) = queues.list_checks()
    queues.mark_active(check)
    queued = next(each for each in queues.list_workloads() if each.owner_name == queue.workload)
    owner = queues.view_owner(queued)
    assert isinstance(owner, WorkloadView)
    assert queues.view_admitted(owner) is not None
    queues.write_state(queued, queued.checks[0])


RIGHTS = [
    (role["metadata"]["name"], index, resource, verb)
    for role in read_optional_rights(FOLDER)
    if role["kind"] == "ClusterRole"
    for index, rule in enumerate(role["rules"])
    for resource in rule["resources"]
    for verb in rule["verbs"]
]


def test_without_any_one_right_something_fails(plane: ControlPlane, cloud: Cloud, accounts: Accounts) -> None:
    queue = Queue(cloud, "rights", V6E, check=CHECK)
    fault = cloud.add_fault("duration", pool="rights-*", operation="create", seconds=36_000)
    queue.submit("JobSet", jobset(queue.workload, Job(does=LONG)))
    wait_for("a check", lambda: queue.check_state(queue.workload))
    wait_for("the rights to be enough", lambda: not _find_denial(accounts, queue))
    for role, index, resource, verb in RIGHTS:
        lesser = copy.deepcopy(
            next(each for each in read_optional_rights(FOLDER) if each["metadata"]["name"] == role)
        )
        lesser["rules"][index]["verbs"].remove(verb)
        if not lesser["rules"][index]["verbs"]:
            del lesser["rules"][index]
        plane.apply([lesser])
        said = wait_for(f"{verb} {resource} is missed", lambda: _find_denial(accounts, queue))
        assert resource.partition("/")[0] in said
        plane.apply(read_optional_rights(FOLDER))
        wait_for("the rights to be enough", lambda: not _find_denial(accounts, queue))
    cloud.clear_fault(fault)
    queue.delete("JobSet")
    queue.clear()


def _find_denial(accounts: Accounts, queue: Queue) -> str:
    try:
        _act(accounts, queue)
    except Denied as error:
        return str(error)
    return ""
