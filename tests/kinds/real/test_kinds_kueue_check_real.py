"""Kueue with our admission check: all slices' pools come before any pod, or the quota goes back."""

import copy
import dataclasses
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.access.kubeconfig import connection_from_kubeconfig
from demo.settings import ClusterKind, StackSettings
from demo.stack import Stack
from exporter.observed_objects import watch_queues
from exporter.watch import open_watch
from shared.edges.kubernetes import KubernetesApi
from shared.edges.kueue import CONTROLLER, KueueQueues
from shared.model.errors import Denied, StaleView
from shared.model.labels import CAPACITY_CHECK_SECONDS, CAPACITY_CHECKED
from shared.model.workloads import WorkloadView
from standins.controlplane.plane import ControlPlane
from tests.clusters import SPEED
from tests.kinds.controllers import with_controllers
from tests.kinds.optional_rights import NAMESPACE, read_optional_rights
from tests.kinds.queues import API, BODIES, LONG, V6E, Queue, a_jobset
from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import Job, jobset

KUEUE, KUBERAY = "kueue-0.15", "kuberay-1.6"
pytestmark = with_controllers(KUEUE, KUBERAY)
Json = dict[str, Any]
CHECK = "capacity"
FOLDER = "kueue"
GRACE_SECONDS = 20
RELEASE_SECONDS = 5.0 * GRACE_SECONDS
LONG_CREATION = 30 * SPEED
"""Virtual seconds: longer than a preemption takes on a busy machine."""
DECIDING = ("provision", "collect")
"""The functions."""
PROVISION, EXPORTER = "tpu-provisioner-provision", "tpu-provisioner-exporter"


@pytest.fixture(scope="module")
def plane(plane: ControlPlane) -> ControlPlane:
    plane.apply(read_optional_rights(FOLDER))
    return plane


@pytest.fixture(scope="module")
def stack_settings() -> StackSettings:
    return StackSettings(
        speed=SPEED,
        cluster=ClusterKind.REAL,
        grace_virtual_seconds=GRACE_SECONDS * SPEED,
        kueue_admission_check=True,
    )


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
    assert (state["state"], state["message"]) == ("Ready", "all node pools of the workload run")
    assert {pod["metadata"]["labels"][CAPACITY_CHECKED] for pod in pods} == {"true"}
    assert queue.pools_of(pods) == queue.pools() == pools
    queue.delete("JobSet")
    queue.clear(pools=2)


def test_a_part_that_is_not_whole_in_time_is_given_back_and_kueue_tries_again_after_a_pause(cloud: Cloud) -> None:
    queue = Queue(cloud, "dry", V6E, chips=16, check=CHECK)
    body = two_slices(queue.workload)
    body["metadata"].setdefault("annotations", {})[CAPACITY_CHECK_SECONDS] = "60"
    first = cloud.add_fault("outcome", pool="dry-w-*", kind="stockout", seconds=10 * SPEED, count=1)
    queue.submit("JobSet", body)
    wait_for("both creates", lambda: queue.accepted("CreateNodePool") == 2)
    later = cloud.add_fault("outcome", pool="dry-w-*", kind="stockout", seconds=10 * SPEED, count=1000)

    state = wait_for("the check is Retry", lambda: _find_state(queue, "Retry"))
    assert state["requeueAfterSeconds"] >= 1
    assert "does not have enough resources" in state["message"]
    assert queue.is_suspended("JobSet")
    wait_for("all pools go", lambda: not queue.pools())
    for fault in (first, later):
        cloud.clear_fault(fault)
    assert queue.pools_of(queue.wait_running(4)) == queue.pools()
    assert queue.check_state(queue.workload)["retryCount"] >= 1
    queue.delete("JobSet")
    queue.clear()


def test_without_any_tick_the_check_is_answered_by_messages(cloud: Cloud, stack: Stack) -> None:
    queue = Queue(cloud, "swift", V6E, chips=16, check=CHECK)
    with paused(stack, DECIDING[0]):
        queue.submit("JobSet", two_slices(queue.workload))
        assert queue.pools_of(queue.wait_running(4)) == queue.pools()
        assert queue.check_state(queue.workload)["state"] == "Ready"
    queue.delete("JobSet")
    queue.clear(pools=2)


@contextmanager
def paused(stack: Stack, *names: str) -> Iterator[None]:
    pids = [each.pid for each in stack.supervisor.states() if each.name in names]
    assert len(pids) == len(names)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_each_kind_with_a_suspension_gets_its_pools_before_its_pods(cloud: Cloud) -> None:
    queues = {
        kind: Queue(cloud, f"kind-{kind.lower()}", V6E, check=CHECK) for kind in ("JobSet", "Job", "RayCluster")
    }
    for kind, queue in queues.items():
        queue.submit(kind, BODIES[kind](queue.workload))
    for kind, queue in queues.items():
        pods = queue.wait_running(2)
        assert {pod["metadata"]["labels"][CAPACITY_CHECKED] for pod in pods} == {"true"}
        assert queue.pools_of(pods) == queue.pools()
        assert queue.check_state(queue.workload)["state"] == "Ready"
        assert queue.accepted("CreateNodePool") == 1
        queue.delete(kind)
    for queue in queues.values():
        queue.clear()


def test_what_is_preempted_while_its_pools_are_made_gives_them_back_and_never_had_a_pod(cloud: Cloud) -> None:
    queue = Queue(cloud, "rank", V6E, chips=16, check=CHECK, shaped=False)
    queue.make("workloadpriorityclasses", "WorkloadPriorityClass", f"{queue.name}-urgent", {"value": 1000})
    fault = cloud.add_fault("duration", pool="rank-low-*", operation="create", seconds=LONG_CREATION)
    queue.submit("JobSet", a_jobset("rank-low", "2x4"))
    wait_for("its pool is being made", lambda: queue.pools("rank-low-"))
    queue.submit("JobSet", a_jobset("rank-high", "4x4"), priority=f"{queue.name}-urgent")

    queue.wait_running(4, "rank-high")
    assert queue.conditions("rank-low")["Evicted"] == "True Preempted"
    assert queue.pods("rank-low") == []
    cloud.clear_fault(fault)
    wait_for("the pool of the preempted one goes", lambda: not queue.pools("rank-low-"), seconds=RELEASE_SECONDS)
    queue.delete("JobSet", "rank-high")
    assert queue.pools_of(queue.wait_running(2, "rank-low")) == queue.pools("rank-low-")
    queue.delete("JobSet", "rank-low")
    queue.clear(pools=3)


def test_two_namespaces_share_quota_and_what_was_borrowed_goes_back_with_its_pool(cloud: Cloud) -> None:
    host = Queue(cloud, "host", V6E, check=CHECK, shaped=False)
    guest = Queue(cloud, "guest", check=CHECK, beside=host)
    guest.submit("JobSet", a_jobset(guest.workload, "4x4"))
    assert guest.pools_of(guest.wait_running(4)) == guest.pools()
    host.submit("JobSet", a_jobset(host.workload, "2x4"))

    guest.wait_no_pods()
    assert guest.conditions(guest.workload)["Evicted"] == "True Preempted"
    assert host.pools_of(host.wait_running(2)) == host.pools()
    wait_for("the borrowed pool goes", lambda: not guest.pools(), seconds=RELEASE_SECONDS)
    assert guest.is_suspended("JobSet")
    host.delete("JobSet")
    assert guest.pools_of(guest.wait_running(4)) == guest.pools()
    guest.delete("JobSet")
    for queue in (guest, host):
        queue.clear()
    assert (guest.accepted("CreateNodePool"), host.accepted("CreateNodePool")) == (2, 1)


def _find_state(queue: Queue, word: str) -> Json | None:
    state = queue.check_state(queue.workload)
    return state if state.get("state") == word else None


@dataclasses.dataclass(frozen=True)
class Accounts:
    """Kueue as the account of `provision` and the exporter's see it."""

    queues: KueueQueues
    watching: KubernetesApi


@pytest.fixture
def accounts(plane: ControlPlane, cloud: Cloud, tmp_path: Path) -> Iterator[Accounts]:
    apis = []
    for name in (PROVISION, EXPORTER):
        plane.write_account_kubeconfig(tmp_path / name, NAMESPACE, name)
        apis.append(KubernetesApi(connection_from_kubeconfig(tmp_path / name)))
    yield Accounts(KueueQueues(apis[0]), apis[1])
    plane.apply(read_optional_rights(FOLDER))
    for api in apis:
        api.close()


def _act(accounts: Accounts, queue: Queue) -> None:
    """Do all that `provision` and the exporter ask of Kueue."""
    watched = watch_queues()
    (page, *_) = accounts.watching.list_pages(watched.path, watched.shape)
    version = {"resourceVersion": page.metadata.resource_version, "timeoutSeconds": "1"}
    with open_watch(accounts.watching, watched.path, version, watched.shape, silence_seconds=10) as watch:
        list(watch)
    queues = accounts.queues
    (check,) = queues.list_checks()
    queues.mark_active(check)
    queued = next(each for each in queues.list_workloads() if each.owner.name == queue.workload)
    owner = queues.view_owner(queued)
    assert isinstance(owner, WorkloadView)
    assert list(queues.list_owned(owner.namespace, owner.uid))
    queues.write_state(queued, queued.checks[0])


RIGHTS = [
    (role["metadata"]["name"], index, resource, verb)
    for role in read_optional_rights(FOLDER)
    if role["kind"] == "ClusterRole"
    for index, rule in enumerate(role["rules"])
    for resource in rule["resources"]
    for verb in rule["verbs"]
]


def test_without_any_one_right_something_fails(
    plane: ControlPlane, cloud: Cloud, accounts: Accounts, stack: Stack
) -> None:
    queue = Queue(cloud, "rights", V6E, check=CHECK)
    with paused(stack, *DECIDING):  # else a function answers the check, and it is Pending no more
        queue.submit("JobSet", jobset(queue.workload, Job(does=LONG)))
        _take_each_right(plane, accounts, queue)
        queue.delete("JobSet")
        wait_for("the JobSet is gone", lambda: queue.describe_end() == "gone")
    queue.clear()


def _take_each_right(plane: ControlPlane, accounts: Accounts, queue: Queue) -> None:
    wait_for("a check", lambda: queue.check_state(queue.workload))
    wait_for("the rights to be enough", lambda: not _find_denial(accounts, queue))
    for role, index, resource, lost in RIGHTS:
        lesser = copy.deepcopy(
            next(each for each in read_optional_rights(FOLDER) if each["metadata"]["name"] == role)
        )
        rule = lesser["rules"].pop(index)
        lesser["rules"] += [
            rule
            | {"resources": [each], "verbs": [verb for verb in rule["verbs"] if (each, verb) != (resource, lost)]}
            for each in rule["resources"]
        ]
        lesser["rules"] = [each for each in lesser["rules"] if each["verbs"]]
        plane.apply([lesser])
        answer = wait_for(f"{lost} {resource} is missed", lambda: _find_denial(accounts, queue))
        assert resource.partition("/")[0] in answer
        plane.apply(read_optional_rights(FOLDER))
        wait_for("the rights to be enough", lambda: not _find_denial(accounts, queue))


def _find_denial(accounts: Accounts, queue: Queue) -> str:
    try:
        _act(accounts, queue)
    except Denied as error:
        return str(error)
    except StaleView:
        pass  # a function has just answered, so the next look tells
    return ""
