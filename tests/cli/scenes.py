"""Scenes of the screens: what a deployment has, by a name that is in brackets in their titles.

A scene is a story, as in `tests/engine`. Its log records are in a file of its name.
"""

import dataclasses
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cli.access.connections import Deployment
from cli.access.deployment import DEAD_LETTERS, ENDS
from shared.edges.connection import Connection
from shared.edges.kubernetes import KubernetesApi
from shared.kinds.jobset import JOBSET
from shared.model import labels
from shared.model.errors import Denied
from shared.model.pools import PoolStatus
from shared.model.times import format_time
from shared.model.workloads import Disk
from standins.google.tests.fakegke_worlds import serving_google
from tests.builders import CLUSTER, NOW, a_jobset, a_pod, a_template
from tests.cli.cli_world import NOWHERE, WorldApi, a_deployment
from tests.contract.gke_world import ask
from tests.engine.test_stories import Story

RECORDS = Path(__file__).parent / "records"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/tpu-provisioner/leases/tpu-provisioner-exporter"
SCENES = {
    "cluster": "",
    "nothing is missing": (
        "buy 0; deploy provision collect provision-ends collect-ends dead-letters; lease 60 exporter-a"
    ),
    "neglected": (
        "settings kinds=[JobSet]; deploy provision collect provision-ends; lease 300 exporter-a; "
        "end-namespace tpu-provisioner"
    ),
    "in trouble": (
        "settings kinds=[JobSet,RayCluster] limit_chips=64 limit_chips_per_namespace=16; "
        "deploy provision collect provision-ends dead-letters; lease 0; absent JobSet RayCluster; letters 2; "
        "label tpu-provisioner MODE=off"
    ),
    "no access": "fail list_pools denied; silence",
    "no pools": "jobset; fail list_pools denied",
    "five hours": "",
    "a limit": "has slices=2 limit_chips=16; buy 0 1",
    "no rights": "add train other third; fail get_JobSet_* denied",
    "refused at once": (
        "has slices=1; run-all; add over; provision over; run 0 1 over; jobset name=over terminal=Completed; "
        "finish; add refused limited served paused"
    ),
    "a cluster": "label team-a DISABLE_AUTOPROVISIONING=true; disk us-east5-a",
    "no disks": "disk",
    "half served": "wait 0 1; provision; run 0 0; error 1 [GCE_STOCKOUT]; pass 50",
    "failed twice": (
        "wait 0 1; provision; run 0 0; error 1 [GCE_STOCKOUT]; pass 50; ended create 0 110 20; "
        "ended create 1-1 950 10 quota exceeded"
    ),
    "a bad night": (
        "has slices=2 limit_chips=32; wait 0 1; provision; run 0 0; error 1 [GCE_STOCKOUT]; pass 50; add nightly; "
        "tick provision; run 0 2 nightly; jobset name=nightly terminal=Completed; end-pods nightly; add tuning"
    ),
    "no nodes": "buy 0; error 0 ZONE_RESOURCE_POOL_EXHAUSTED: The zone has no capacity.",
    "scaled down": "run-all; end-pods train-1; jobset; go-pool",
    "over": (
        "has slices=1; run-all; add held; provision held; run 0 1 held; jobset name=held terminal=Completed; "
        "finish; occupy 1"
    ),
    "pod opts out": "pod labels DISABLE_AUTOPROVISIONING=true",
    "pod names its pool": "pod selectors NODE_POOL=mine",
    "9x9": "pod shape topology=9x9",
    "half refused": "odd-part; wait 0",
    "admitted": "has slices=2 listed=true gangs=[train]; pass 60",
    "useless": "has slices=1; buy 0; come 0; pass 4000",
    "stopped": "wait 0; label tpu-provisioner MODE=no-create",
    "suspended": "jobset suspended=true; body",
    "queued": "jobset suspended=true; body kueue.x-k8s.io/queue-name tpu-queue",
    "gone": "wait 0; provision; end-pods; end-workloads; end-pool 0; ended delete 0 50 50",
}

WRITES = {"kubectl-edit": ("10", "f:suspend"), "controller": ("09", "f:suspend"), "kubectl": ("11", "f:other")}
BODY: dict[str, Any] = {
    "metadata": {
        "name": "train",
        "namespace": "default",
        "managedFields": [
            {"manager": name, "time": f"2026-11-26T{hour}:00:00Z", "fieldsV1": {"f:spec": {field: {}}}}
            for name, (hour, field) in WRITES.items()
        ],
    },
    "spec": {"suspend": True},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "New", "lastTransitionTime": format_time(NOW - 9)},
            {"type": "Suspended", "status": "True", "lastTransitionTime": format_time(NOW - 8)},
        ]
    },
}
"""A suspended JobSet, and who wrote which field of its spec at which hour."""


class Stage(Story):
    """A story of a JobSet of two slices, and what its deployment has beside it."""

    def __init__(self) -> None:
        super().__init__(slices=2)
        self.own: dict[str, Any] = {}
        """The settings of the command line."""
        self.objects: dict[str, Any] = {}
        """Kubernetes objects by their paths."""
        self.kinds_absent: tuple[str, ...] = ()
        self.api: KubernetesApi | None = None
        self.subscriptions: tuple[str, ...] = ()
        self.dead_letters = 0

    # --- further verbs of its story ---

    def has(self, **fields: Any) -> None:
        """Begin the world anew with these settings."""
        super().__init__(**fields)

    def deploy(self, *subscriptions: str) -> None:
        """The deployment has a name, subscriptions, and an exporter that has renewed its Lease."""
        self.own = {"project": "p", "name": "x", "lease_name": "tpu-provisioner-exporter"}
        self.subscriptions = subscriptions
        self.lease(0, "exporter-a")

    def lease(self, age: int, holder: str = "") -> None:
        self.objects[LEASE] = {"spec": {"holderIdentity": holder, "renewTime": format_time(NOW - age)}}

    def absent(self, *kinds: str) -> None:
        self.kinds_absent = kinds

    def letters(self, count: int) -> None:
        self.dead_letters = count

    def body(self, label: str = "", value: str = "") -> None:
        """The JobSet has all fields, and perhaps a label."""
        metadata = {**BODY["metadata"], "labels": {label: value}}
        self.objects[JOBSET.path_of("default", "train")] = BODY | {"metadata": metadata}

    def silence(self) -> None:
        """Kubernetes does not answer."""
        self.api = KubernetesApi(Connection(url=NOWHERE))

    def disk(self, zone: str = "") -> None:
        """The disk of every claim is in a zone; without one nobody may read a claim."""

        def find(*_claim: str) -> Disk:
            if not zone:
                raise Denied("persistentvolumeclaims is forbidden")
            return Disk(claim="data", zones=(zone,))

        vars(self.world.cluster)["find_disk"] = find

    def pod(self, what: str, **fields: Any) -> None:
        """One pod of the JobSet waits, with a shape, a label or a selector."""
        field = {getattr(labels, name, name): str(value).lower() for name, value in fields.items()}
        pod = a_pod(created_at=NOW - 120, shape=field if what == "shape" else {what: field})
        self.world.cluster.pods[pod.name] = pod
        self.world.set_jobset(replicas=1, template=pod.template)

    def occupy(self, number: int) -> None:
        """A pod of another JobSet runs on a node of a pool."""
        node = f"{self.world.find_pool(number)}-0"
        self.world.cluster.pods["other"] = a_pod(jobset="other", name="other", uid="other", node_name=node)

    def odd_part(self) -> None:
        """One part of the JobSet can never be served."""
        good, odd = a_jobset(replicas=1), a_jobset(job="odd", replicas=1, template=a_template(topology="9x9"))
        self.world.set_jobset(groups=(*good.groups, *odd.groups))

    def error(self, number: int, *words: str) -> None:
        """GKE says that a pool failed."""
        self.world.pool(number, status=PoolStatus.ERROR, error=" ".join(words))

    # --- the deployment ---

    @contextmanager
    def open(self, records: Path, folder: Path) -> Iterator[Deployment]:
        """Yield the deployment; its logs and subscriptions are served as Google does."""
        if not (records.is_file() or self.subscriptions):
            yield self._connect(a_deployment(self.world, **self.own))
            return
        if records.is_file():
            shutil.copy(records, folder)
        with serving_google(pubsub=True, logs=folder, project="p") as google:
            rest = google.ports["rest"]
            subscribe(rest, self.subscriptions)
            if self.dead_letters:
                messages = {"messages": [{"data": "eA=="}] * self.dead_letters}
                ask("POST", f"{rest}/v1/{find_topic(DEAD_LETTERS)}:publish", messages)
            yield self._connect(a_deployment(self.world, google=rest, **self.own))

    def _connect(self, deployment: Deployment) -> Deployment:
        api = WorldApi(self.world, self.objects, self.kinds_absent)
        return dataclasses.replace(deployment, apis={CLUSTER: self.api or api})


def find_topic(part: str) -> str:
    """Return the topic to which a deployment has a subscription."""
    topic = part if part == DEAD_LETTERS else "nodepool-events" if part.endswith(ENDS) else "workload-events"
    return f"projects/p/topics/x-{topic}"


def subscribe(broker: str, parts: Iterable[str]) -> None:
    """Give Pub/Sub these subscriptions of a deployment, and their topics."""
    for topic in {find_topic(part) for part in parts}:
        ask("PUT", f"{broker}/v1/{topic}", {"messageRetentionDuration": "86400s"})
    for part in parts:
        body = {"topic": find_topic(part), "ackDeadlineSeconds": 60}
        ask("PUT", f"{broker}/v1/projects/p/subscriptions/x-{part}", body)


def build(scene: str) -> Stage:
    """Return a scene after all that happens in its story."""
    stage = Stage()
    for step in filter(None, SCENES[scene].split("; ")):
        stage.tell(step)
    return stage


@contextmanager
def stage(scene: str, folder: Path) -> Iterator[Deployment]:
    """Yield the deployment of a scene."""
    with build(scene).open(RECORDS / f"{scene}.log", folder) as deployment:
        yield deployment
