"""What the controllers' tests can do and ask, and what a cluster must offer for it.

There are two: `embedded_world`, in this process on a manual clock, and `real_world`, a real control
plane. A test says what becomes of its objects `eventually`; no test
asserts how many seconds that takes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from standins.cluster.store.kinds import EVENT, JOB, JOBSET, NODE, POD, Kind
from standins.cluster.tests.cluster_objects import INDEX, node

Json = dict[str, Any]

JOB_OF_POD = "batch.kubernetes.io/job-name"
FURNITURE = {"kube-root-ca.crt"}
"""What every namespace has from its beginning."""


class Refused(Exception):
    """What the API server refused, and why."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code, self.reason, self.message = code, reason, message


@dataclass(frozen=True)
class Change:
    """One change of one object, as a watcher gets it."""

    type: str
    kind: str
    name: str
    body: Json
    version: int

    def __str__(self) -> str:
        return f"{self.kind} {self.type} {self.name}"


class World(ABC):
    """One namespace of a cluster, and all of its nodes."""

    namespace: str

    # What each cluster offers.

    @abstractmethod
    def create(self, kind: Kind, body: Json) -> Json:
        """Create an object and return what was stored; raises `Refused`."""

    @abstractmethod
    def replace(self, kind: Kind, body: Json) -> None:
        """Store a changed object; raises `Refused`."""

    @abstractmethod
    def patch_status(self, kind: Kind, name: str, status: Json) -> None:
        """Merge into an object's status, conditions by type."""

    @abstractmethod
    def delete(
        self, kind: Kind, name: str, *, propagation: str | None = None, grace_seconds: int | None = None
    ) -> None:
        """Delete an object; without a propagation policy its kind decides."""

    @abstractmethod
    def body(self, kind: Kind, name: str) -> Json:
        """Return an object; raises `Refused` with code 404."""

    @abstractmethod
    def objects(self, kind: Kind) -> list[Json]:
        """Return all objects of a kind that the test or a controller made, by name."""

    @abstractmethod
    def settle(self) -> None:
        """Return when the controllers have nothing left to do, to see what did not happen."""

    @abstractmethod
    def proceed(self) -> None:
        """Let the controllers go on, where they do not by themselves."""

    @abstractmethod
    def eventually(self, look: Callable[[], object], wanted: object, *, within_seconds: float = 0.5) -> None:
        """Assert that what `look` finds becomes `wanted`.

        Args:
            look: May raise while what it looks for is not there yet.
            wanted: What it shall find.
            within_seconds: How much time must pass in the cluster; a real cluster gets more.
        """

    @abstractmethod
    def record(self, *kinds: Kind) -> Callable[[], list[Change]]:
        """Return a function that returns all changes of these kinds since now, in order."""

    # Doing.

    def submit(self, kind: Kind, body: Json) -> Json:
        """Create an object and let the controllers see it."""
        created = self.create(kind, body)
        self.proceed()
        return created

    @staticmethod
    def check(look: Callable[[], object], wanted: object) -> None:
        """Assert that what `look` finds is `wanted` now."""
        found = look()
        assert found == wanted, f"{found!r} is not {wanted!r}"

    def add_pool(self, pool: str, nodes: int = 2, **extra: Any) -> None:
        for index in range(nodes):
            self.create(NODE, node(pool, index, **extra))
        self.proceed()

    def edit(self, kind: Kind, name: str, change: Callable[[Json], object]) -> None:
        """Change an object, and begin again when another write came first."""
        for _ in range(10):
            body = self.body(kind, name)
            change(body)
            try:
                self.replace(kind, body)
            except Refused as refusal:
                if refusal.code != 409:
                    raise
                continue
            self.proceed()
            return
        raise AssertionError(f"{kind.kind} {name} changes all the time")

    def edit_jobset(self, **spec: Any) -> None:
        self.edit(JOBSET, "train", lambda body: body["spec"].update(spec))

    def set_phase(self, phase: str, *, job: str = "", pod: str = "", **status: Any) -> None:
        """Report a phase of the pods that have not ended: all, those of one Job, or one."""
        if phase == "Running":
            status["conditions"] = [{"type": "Ready", "status": "True"}]
        for found in self.pods():
            metadata = found["metadata"]
            ended = found["status"]["phase"] in {"Succeeded", "Failed"}
            if (
                not ended
                and pod in {"", metadata["name"]}
                and job in {"", metadata.get("labels", {}).get(JOB_OF_POD)}
            ):
                self.patch_status(POD, metadata["name"], {"phase": phase} | status)
        self.proceed()

    def start(self, pods: int) -> None:
        """Let all pods run as soon as this many are bound."""
        self.eventually(lambda: len([node for node in self.bound().values() if node]), pods)
        self.set_phase("Running")

    def remove_terminating_pods(self, count: int, *, job: str = "") -> None:
        """Remove terminating pods, as a kubelet does after their grace, until so many are removed.

        Args:
            count: How many to remove.
            job: Count the pods of this Job only. On a real control plane a pod that has failed is
                being deleted for an instant too, so a test that fails one of several Jobs names the
                other.
        """
        removed: set[str] = set()

        def remove() -> int:
            for metadata in (found["metadata"] for found in self.pods()):
                if "deletionTimestamp" not in metadata:
                    continue
                with suppress(Refused):  # It went by itself meanwhile.
                    self.delete(POD, metadata["name"], grace_seconds=0)
                if job in {"", metadata.get("labels", {}).get(JOB_OF_POD)}:
                    removed.add(metadata["uid"])
            return len(removed)

        self.eventually(remove, count)
        self.proceed()

    # Looking.

    def names(self, kind: Kind) -> list[str]:
        return [found["metadata"]["name"] for found in self.objects(kind)]

    def uids(self, kind: Kind) -> dict[str, str]:
        return {found["metadata"]["name"]: found["metadata"]["uid"] for found in self.objects(kind)}

    def pods(self) -> list[Json]:
        return self.objects(POD)

    def jobs(self) -> list[Json]:
        return self.objects(JOB)

    def terminating(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods() if "deletionTimestamp" in pod["metadata"]]

    def phases(self) -> list[str]:
        return [pod["status"]["phase"] for pod in self.pods()]

    def indexes(self) -> list[str]:
        return [found["metadata"]["annotations"][INDEX] for found in self.pods()]

    def bound(self) -> dict[str, str]:
        """Return the node of each pod, or the empty text, by its name without the random ending."""
        return {
            found["metadata"]["name"].rsplit("-", 1)[0]: found["spec"].get("nodeName", "") for found in self.pods()
        }

    def jobset(self, name: str = "train") -> Json:
        return self.body(JOBSET, name)

    def terminal_state(self, name: str = "train") -> str:
        return str(self.jobset(name).get("status", {}).get("terminalState", ""))

    def condition(self, condition_type: str, kind: Kind = JOBSET, name: str = "train") -> tuple[str, str] | None:
        """Return status and reason of a condition."""
        conditions = self.body(kind, name).get("status", {}).get("conditions", [])
        return next((_told(found) for found in conditions if found["type"] == condition_type), None)

    def true_conditions(self, kind: Kind, name: str) -> dict[str, str]:
        """Return the reasons of all conditions that hold."""
        conditions = self.body(kind, name).get("status", {}).get("conditions", [])
        return {found["type"]: found.get("reason", "") for found in conditions if found["status"] == "True"}

    def scheduling(self, name: str) -> Json:
        """Return a pod's condition PodScheduled."""
        conditions: Sequence[Json] = self.body(POD, name)["status"]["conditions"]
        return next(found for found in conditions if found["type"] == "PodScheduled")

    def why(self, name: str) -> str:
        """Return why a pod is bound to no node."""
        return str(self.scheduling(name)["message"])

    def events(self) -> list[tuple[str, str]]:
        """Return reasons and messages of all Events, sorted."""
        return sorted((found["reason"], found["message"]) for found in self.objects(EVENT))

    def reasons(self) -> set[str]:
        return {reason for reason, _ in self.events()}


def ours(bodies: Iterable[Json]) -> list[Json]:
    """Return what is not there by itself."""
    return [body for body in bodies if body["metadata"]["name"] not in FURNITURE]


def _told(condition: Json) -> tuple[str, str]:
    return condition["status"], condition.get("reason", "")
