"""The embedded cluster in this process, on a manual clock: every run is the same."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from standins.cluster.api.patches import strategic_merge
from standins.cluster.clock import ManualClock
from standins.cluster.embedded import Cluster
from standins.cluster.store.errors import ApiError
from standins.cluster.store.kinds import Kind
from standins.cluster.store.stored import Change as StoreChange
from standins.cluster.tests.cluster_world import Change, Json, Refused, World, ours
from standins.cluster.writing.deletion import DeleteOptions, delete

SETTLE_SECONDS = 0.5
REST_SECONDS = 2.0
"""A time in which nothing may happen."""


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        raise Refused(error.code, error.reason, error.message) from error


class EmbeddedWorld(World):
    """The namespace `default` of a cluster of one's own."""

    namespace = "default"

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.cluster = Cluster(self.clock)
        self.registry = self.cluster.registry
        self.store = self.cluster.store

    def create(self, kind: Kind, body: Json) -> Json:
        with refusals():
            return self.registry.create(kind, body, self._where(kind)).body()

    def replace(self, kind: Kind, body: Json) -> None:
        with refusals():
            self.registry.replace(kind, self._where(kind), body["metadata"]["name"], body)

    def patch_status(self, kind: Kind, name: str, status: Json) -> None:
        def change(body: Json) -> Json:
            return strategic_merge(body, {"status": status})

        with refusals():
            self.registry.patch(kind, self._where(kind), name, change, status_only=True)

    def delete(
        self, kind: Kind, name: str, *, propagation: str | None = None, grace_seconds: int | None = None
    ) -> None:
        policy: Any = propagation
        options = DeleteOptions(grace_period_seconds=grace_seconds, propagation_policy=policy)
        with refusals():
            delete(self.registry, self.registry.get(kind, self._where(kind), name), options)
        self.proceed()

    def body(self, kind: Kind, name: str) -> Json:
        with refusals():
            return self.registry.get(kind, self._where(kind), name).body()

    def objects(self, kind: Kind) -> list[Json]:
        return ours(stored.body() for stored in self.store.objects(kind, self._where(kind)))

    def settle(self) -> None:
        self.pass_time(REST_SECONDS)

    def proceed(self) -> None:
        self.pass_time(SETTLE_SECONDS)

    def pass_time(self, seconds: float) -> None:
        """Move the clock; tests on both clusters use `eventually` with `within_seconds`."""
        self.cluster.settle(seconds=seconds)

    def eventually(
        self, look: Callable[[], object], wanted: object, *, within_seconds: float = SETTLE_SECONDS
    ) -> None:
        self.pass_time(within_seconds)
        self.check(look, wanted)

    def record(self, *kinds: Kind) -> Callable[[], list[Change]]:
        changes: list[Change] = []

        def note(change: StoreChange) -> None:
            if change.kind in kinds:
                subject = change.subject
                told = Change(change.type, change.kind.kind, subject.name, subject.body(), change.version)
                changes.append(told)

        self.store.subscribe(note)
        return lambda: changes

    def _where(self, kind: Kind) -> str:
        return self.namespace if kind.namespaced else ""
