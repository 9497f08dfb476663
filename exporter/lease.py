"""Leader election by a Kubernetes Lease: one exporter reports, the others wait.

Written for these failures: every error while renewing, and every lost race, ends the leadership
here before another process may take it. A write has the resource version that was read, so two
writes can never both succeed. A clean end releases the lease. Clocks of different machines are not
compared: a standby measures for how long the record has not changed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from shared.edges.kubernetes import KubernetesApi, ObjectMeta, Record
from shared.model.errors import AlreadyExists, NotFound, ProvisionerError, StaleView

_logger = logging.getLogger(__name__)


class LeaseSpec(Record):
    """The holder of a Lease, and for how long."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Record):
    """A lock with a lifetime, ``coordination.k8s.io/v1``."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class LeaseLost(Exception):
    """This process is no longer the leader and must end at once."""


class LeaseLock:
    """One identity's hold on one Lease, ``coordination.k8s.io/v1``."""

    def __init__(
        self,
        api: KubernetesApi,
        *,
        namespace: str,
        name: str,
        identity: str,
        lease_seconds: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is read or written yet.

        Others may take the lease after `lease_seconds` without a change of the record, so the
        time-out of the API should be well below a third of that. The identity is this process's
        alone.
        """
        self._api, self._identity, self._lease_seconds, self._clock = api, identity, lease_seconds, clock
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace, self._name = namespace, name
        self._held: Lease | None = None
        self._valid_until = float("-inf")
        self._version, self._unchanged_since = "", 0.0

    @property
    def retry_seconds(self) -> float:
        """How often to renew or to look: six times in a lease."""
        return self._lease_seconds / 6

    def is_held(self) -> bool:
        """Return whether this process still holds the lease for certain.

        True for two thirds of the lease after the last renewal was *sent*; the rest is the margin
        for a request or a batch that is still under way.
        """
        return self._held is not None and self._clock() < self._valid_until

    def try_acquire(self) -> bool:
        """Take the lease if it is free or expired; return whether this process holds it."""
        started = self._clock()
        try:
            lease = self._read()
        except NotFound:
            lease = Lease(spec=LeaseSpec(lease_transitions=-1))  # its first holder takes it from nobody
        if not self._may_be_taken(lease, started):
            return False
        spec = LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=self._lease_seconds,
            acquire_time=_now(),
            renew_time=_now(),
            lease_transitions=(lease.spec.lease_transitions or 0) + 1,
        )
        try:
            self._write(lease, spec, started)
        except (StaleView, NotFound, AlreadyExists):
            return False
        return True

    def renew(self) -> None:
        """Renew the lease; `LeaseLost` if another process holds it, or it was not done in time."""
        started = self._clock()
        if self._held is None or not self.is_held():
            raise LeaseLost("the lease expired before it was renewed")
        try:
            self._renew_held(self._held, started)
        except (StaleView, NotFound) as error:
            self._held = None
            raise LeaseLost(f"another process changed or removed the lease: {error}") from error
        except ProvisionerError as error:
            _logger.warning(
                "the lease was not renewed and will be tried again",
                extra={"problem": str(error), "seconds_left": round(self._valid_until - self._clock(), 1)},
            )
            if not self.is_held():
                self._held = None
                raise LeaseLost(f"the lease could not be renewed in time: {error}") from error

    def release(self) -> bool:
        """Release the lease, so that a standby takes it at once; return whether that worked."""
        held, self._held = self._held, None
        if held is None:
            return False
        spec = replace(held.spec, holder_identity="", lease_duration_seconds=1, renew_time=_now())
        try:
            self._api.update(f"{self._folder}/{self._name}", self._body(held, spec), Lease)
        except ProvisionerError as error:
            _logger.warning(
                "the lease was not released; a standby takes it when it expires", extra={"problem": str(error)}
            )
            return False
        return True

    def _renew_held(self, held: Lease, started: float) -> None:
        spec = replace(
            held.spec,
            holder_identity=self._identity,
            lease_duration_seconds=self._lease_seconds,
            renew_time=_now(),
        )
        try:
            self._write(held, spec, started)
        except StaleView:
            # An earlier renewal whose answer was lost, or an edit of a label, changes the version
            # as well: only the holder's name decides.
            lease = self._read()
            if lease.spec.holder_identity != self._identity:
                raise
            self._write(lease, spec, started)

    def _may_be_taken(self, lease: Lease, now: float) -> bool:
        holder = lease.spec.holder_identity or ""
        if lease.metadata.resource_version != self._version:
            self._version, self._unchanged_since = lease.metadata.resource_version, now
        if holder in ("", self._identity):
            return True
        length = lease.spec.lease_duration_seconds or self._lease_seconds
        return now - self._unchanged_since >= length

    def _read(self) -> Lease:
        return self._api.get(f"{self._folder}/{self._name}", Lease)

    def _write(self, read: Lease, spec: LeaseSpec, started: float) -> None:
        """Replace a lease that was read, or create it if there was none."""
        body = self._body(read, spec)
        if read.metadata.resource_version:
            self._held = self._api.update(f"{self._folder}/{self._name}", body, Lease)
        else:
            self._held = self._api.create(self._folder, body, Lease)
        # Counted from before the request: for others, the record is unchanged since a later moment.
        self._valid_until = started + self._lease_seconds * 2 / 3

    def _body(self, read: Lease, spec: LeaseSpec) -> Lease:
        metadata = ObjectMeta(
            name=self._name,
            namespace=self._namespace,
            resource_version=read.metadata.resource_version,
            labels=read.metadata.labels,
            annotations=read.metadata.annotations,
        )
        return Lease(api_version="coordination.k8s.io/v1", kind="Lease", metadata=metadata, spec=spec)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
