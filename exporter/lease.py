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
from typing import Any

from shared.edges.kubernetes import JsonObject, KubernetesApi, reading
from shared.kinds import read
from shared.model.errors import AlreadyExists, NotFound, ProvisionerError, StaleView

_GROUP = "coordination.k8s.io/v1"
_logger = logging.getLogger(__name__)


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
        self._api, self._identity, self._clock = api, identity, clock
        self._lease_seconds = lease_seconds
        self._folder = f"/apis/{_GROUP}/namespaces/{namespace}/leases"
        self._path = f"{self._folder}/{name}"
        metadata = {"name": name, "namespace": namespace}
        self._new = {"apiVersion": _GROUP, "kind": "Lease", "metadata": metadata}
        self._held: JsonObject | None = None  # as it was written last
        self._valid_until = float("-inf")
        self._version, self._unchanged_since = "", float("-inf")

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
            lease = self._api.get(self._path, JsonObject)
        except NotFound:
            # Its first holder takes it from nobody.
            lease = self._new | {"spec": {"leaseTransitions": -1}}
        try:
            with reading(self._path):
                if not self._may_be_taken(lease, started):
                    return False
                moves = read.number(lease, "spec", "leaseTransitions") + 1
                self._write(lease, started, acquireTime=_now(), leaseTransitions=moves)
        except (StaleView, NotFound, AlreadyExists):
            return False
        return True

    def renew(self) -> None:
        """Renew the lease; `LeaseLost` if another process holds it, or it was not done in time."""
        started = self._clock()
        if self._held is None or not self.is_held():
            raise LeaseLost("the lease expired before it was renewed")
        try:
            with reading(self._path):
                self._renew_held(self._held, started)
        except (StaleView, NotFound) as error:
            self._held = None
            raise LeaseLost(f"another process changed or removed the lease: {error}") from error
        except ProvisionerError as error:
            left = round(self._valid_until - self._clock())
            facts = {"problem": str(error), "seconds_left": left}
            _logger.warning("the lease was not renewed and will be tried again", extra=facts)
            if not self.is_held():
                self._held = None
                raise LeaseLost(f"the lease could not be renewed in time: {error}") from error

    def release(self) -> bool:
        """Release the lease, so that a standby takes it at once; return whether that worked."""
        held, self._held = self._held, None
        if held is None:
            return False
        try:
            with reading(self._path):
                self._update(held, holderIdentity="", leaseDurationSeconds=1, renewTime=_now())
        except ProvisionerError as error:
            text = "the lease was not released; a standby takes it when it expires"
            _logger.warning(text, extra={"problem": str(error)})
            return False
        return True

    def _renew_held(self, held: JsonObject, started: float) -> None:
        try:
            self._write(held, started)
        except StaleView:
            # An earlier renewal whose answer was lost, or an edit of a label, changes the version
            # as well: only the holder's name decides.
            lease = self._api.get(self._path, JsonObject)
            if read.text(lease, "spec", "holderIdentity") != self._identity:
                raise
            self._write(lease, started)

    def _may_be_taken(self, lease: JsonObject, now: float) -> bool:
        holder, version = read.text(lease, "spec", "holderIdentity"), _read_version(lease)
        if version != self._version:
            self._version, self._unchanged_since = version, now
        if holder in ("", self._identity):
            return True
        length = read.number(lease, "spec", "leaseDurationSeconds") or self._lease_seconds
        return now - self._unchanged_since >= length

    def _write(self, lease: JsonObject, started: float, **changes: Any) -> None:
        """Make a lease ours that was read, or that does not exist yet."""
        of_ours = {"holderIdentity": self._identity, "leaseDurationSeconds": self._lease_seconds}
        self._held = self._update(lease, **of_ours, renewTime=_now(), **changes)
        # Counted from before the request: for others, the record is unchanged since a later moment.
        self._valid_until = started + self._lease_seconds * 2 / 3

    def _update(self, lease: JsonObject, **changes: Any) -> JsonObject:
        """Replace a lease that was read by one with other fields, or create it."""
        body = {**lease, "spec": {**read.fields(lease, "spec"), **changes}}
        if _read_version(lease):
            return self._api.update(self._path, body, JsonObject)
        return self._api.create(self._folder, body, JsonObject)


def _read_version(lease: JsonObject) -> str:
    return read.text(lease, "metadata", "resourceVersion")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
