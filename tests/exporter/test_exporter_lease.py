"""Can two ever lead, or can one continue without the right? Leases work as in Kubernetes."""

from typing import Any

import pytest

from exporter.lease import LeaseLock, LeaseLost
from shared.edges.kubernetes import KubernetesApi
from shared.model.errors import ProvisionerError, Unavailable
from tests.exporter.scripted_kubernetes import Refusal, ScriptedKubernetes

LEASE_SECONDS = 15


class Leases:
    """One Lease of a scripted API, and the locks of processes on it; time is what the test says."""

    def __init__(self, api: KubernetesApi, kubernetes: ScriptedKubernetes) -> None:
        self.api, self.kubernetes, self.now = api, kubernetes, 1_000.0

    def lock(self, identity: str = "me", *, taken: bool = False) -> LeaseLock:
        lock = LeaseLock(
            self.api,
            namespace="ns",
            name="exporter",
            identity=identity,
            lease_seconds=LEASE_SECONDS,
            clock=lambda: self.now,
        )
        assert not taken or lock.try_acquire()
        return lock

    @property
    def stored(self) -> Any:
        return self.kubernetes.leases["exporter"]

    @property
    def holder(self) -> Any:
        return self.stored["spec"].get("holderIdentity")


@pytest.fixture
def leases(api: KubernetesApi, kubernetes: ScriptedKubernetes) -> Leases:
    return Leases(api, kubernetes)


def test_a_lease_that_does_not_exist_is_created(leases: Leases) -> None:
    lock = leases.lock()
    assert not lock.is_held()
    assert lock.try_acquire()
    assert lock.is_held()
    assert leases.holder == "me"
    spec = leases.stored["spec"]
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (15, 0)


def test_a_held_lease_is_taken_only_after_it_stood_still_for_its_whole_length(leases: Leases) -> None:
    leases.lock(taken=True)
    standby = leases.lock("other")
    assert not standby.try_acquire()
    leases.now += LEASE_SECONDS - 1
    assert not standby.try_acquire()
    leases.now += 1
    assert standby.try_acquire()
    assert leases.holder == "other"
    assert leases.stored["spec"]["leaseTransitions"] == 1


def test_a_standby_never_trusts_the_times_in_the_record(leases: Leases) -> None:
    leases.lock(taken=True)
    leases.stored["spec"]["renewTime"] = "1999-01-01T00:00:00.000000Z"
    assert not leases.lock("other").try_acquire()


def test_renewing_keeps_the_standby_out(leases: Leases) -> None:
    leader, standby = leases.lock(taken=True), leases.lock("other")
    for _ in range(10):
        leases.now += LEASE_SECONDS / 3
        leader.renew()
        assert not standby.try_acquire()
    assert leases.holder == "me"


def test_the_leader_stops_before_the_standby_may_start(leases: Leases) -> None:
    leader, standby = leases.lock(taken=True), leases.lock("other")
    standby.try_acquire()
    both = []
    for _ in range(LEASE_SECONDS * 4):
        leases.now += 0.5
        both.append(leader.is_held() and standby.try_acquire())
    assert not any(both)
    assert standby.try_acquire() or standby.is_held()


def test_a_network_error_while_renewing_is_borne_only_until_two_thirds_of_the_lease(leases: Leases) -> None:
    lock = leases.lock(taken=True)
    leases.kubernetes.stop()
    leases.api.close()
    leases.now += 5
    lock.renew()
    assert lock.is_held()
    leases.now += 5
    assert not lock.is_held()
    with pytest.raises(LeaseLost):
        lock.renew()


def test_a_stolen_lease_is_lost_at_once(leases: Leases) -> None:
    lock = leases.lock(taken=True)
    stolen = leases.stored
    stolen["spec"]["holderIdentity"] = "thief"
    stolen["metadata"]["resourceVersion"] = "999"
    with pytest.raises(LeaseLost):
        lock.renew()
    assert not lock.is_held()
    assert leases.holder == "thief"
    assert not lock.release()


def test_a_deleted_lease_is_lost(leases: Leases) -> None:
    lock = leases.lock(taken=True)
    leases.kubernetes.leases.clear()
    with pytest.raises(LeaseLost):
        lock.renew()
    assert not lock.is_held()


def test_of_two_that_take_a_free_lease_only_one_succeeds(leases: Leases) -> None:
    first, second = leases.lock(taken=True), leases.lock("other")
    first.release()
    found = second._read()
    assert first.try_acquire()
    assert second._may_be_taken(found, leases.now)
    with pytest.raises(ProvisionerError):
        second._write(found, found.spec, leases.now)
    assert leases.holder == "me"


def test_a_released_lease_is_taken_at_once(leases: Leases) -> None:
    leader, standby = leases.lock(taken=True), leases.lock("other")
    assert not standby.try_acquire()
    assert leader.release()
    assert not leader.is_held()
    assert leases.holder == ""
    assert standby.try_acquire()


def test_an_acquisition_whose_answer_was_lost_is_ours_at_the_next_try(leases: Leases) -> None:
    leases.lock(taken=True)
    assert leases.lock().try_acquire()
    assert leases.holder == "me"


def test_an_api_that_cannot_be_asked_is_an_error_and_no_leadership(leases: Leases) -> None:
    leases.kubernetes.lease_refusals.append(Refusal(503))
    lock = leases.lock()
    with pytest.raises(Unavailable):
        lock.try_acquire()
    assert not lock.is_held()
