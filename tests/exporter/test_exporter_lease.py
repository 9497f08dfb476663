"""Can two ever lead, or can one continue without the right? Leases work as in Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from exporter.lease import LeaseLock, LeaseLost
from shared.core.errors import ProvisionerError, Unavailable
from tests.exporter.scripted_kubernetes import Refusal, ScriptedKubernetes

if TYPE_CHECKING:
    from shared.edges.kubernetes_api import KubernetesApi

LEASE_SECONDS = 15


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def a_lock(api: KubernetesApi, clock: Clock, identity: str = "me") -> LeaseLock:
    return LeaseLock(
        api,
        namespace="ns",
        name="exporter",
        identity=identity,
        lease_seconds=LEASE_SECONDS,
        clock=clock,
    )


def holder(kubernetes: ScriptedKubernetes) -> Any:
    return kubernetes.leases["exporter"]["spec"].get("holderIdentity")


def test_a_lease_that_does_not_exist_is_created(
    api: KubernetesApi, clock: Clock, kubernetes: ScriptedKubernetes
) -> None:
    lock = a_lock(api, clock)
    assert not lock.is_held()
    assert lock.try_acquire()
    assert lock.is_held()
    assert holder(kubernetes) == "me"
    spec = kubernetes.leases["exporter"]["spec"]
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (15, 0)


def test_a_held_lease_is_taken_only_after_it_stood_still_for_its_whole_length(
    api: KubernetesApi, clock: Clock, kubernetes: ScriptedKubernetes
) -> None:
    leader, standby = a_lock(api, clock), a_lock(api, clock, "other")
    assert leader.try_acquire()
    assert not standby.try_acquire()
    clock.now += LEASE_SECONDS - 1
    assert not standby.try_acquire()
    clock.now += 1
    assert standby.try_acquire()
    assert holder(kubernetes) == "other"
    assert kubernetes.leases["exporter"]["spec"]["leaseTransitions"] == 1


def test_a_standby_never_trusts_the_times_in_the_record(
    api: KubernetesApi, clock: Clock, kubernetes: ScriptedKubernetes
) -> None:
    a_lock(api, clock).try_acquire()
    kubernetes.leases["exporter"]["spec"]["renewTime"] = "1999-01-01T00:00:00.000000Z"
    assert not a_lock(api, clock, "other").try_acquire()


def test_renewing_keeps_the_standby_out(api: KubernetesApi, clock: Clock, kubernetes: ScriptedKubernetes) -> None:
    leader, standby = a_lock(api, clock), a_lock(api, clock, "other")
    leader.try_acquire()
    for _ in range(10):
        clock.now += LEASE_SECONDS / 3
        leader.renew()
        assert not standby.try_acquire()
    assert holder(kubernetes) == "me"


def test_the_leader_stops_before_the_standby_may_start(api: KubernetesApi, clock: Clock) -> None:
    leader, standby = a_lock(api, clock), a_lock(api, clock, "other")
    leader.try_acquire()
    standby.try_acquire()
    both = []
    for _ in range(LEASE_SECONDS * 4):
        clock.now += 0.5
        both.append(leader.is_held() and standby.try_acquire())
    assert not any(both)
    assert standby.try_acquire() or standby.is_held()


def test_a_network_error_while_renewing_is_borne_only_until_two_thirds_of_the_lease(
    api: KubernetesApi, clock: Clock, kubernetes: ScriptedKubernetes
) -> None:
    lock = a_lock(api, clock)
    lock.try_acquire()
    kubernetes.stop()
    api.close()
    clock.now += 5
    lock.renew()
    assert lock.is_held()
    clock.now += 5
    assert not lock.is_held()
    with pytest.raises(LeaseLost):
        lock.renew()


@pytest.mark.parametrize("code", [500, 401, 403, 429, 410, 400])
def test_a_refused_renewal_is_an_error_like_any_other(
    api: KubernetesApi, clock: Clock, kubernetes: ScriptedKubernetes, code: int
) -> None:
    lock = a_lock(api, clock)
    lock.try_acquire()
    kubernetes.lease_refusals.append(Refusal(code))
    clock.now += 2
    lock.renew()
    lock.renew()
    assert lock.is_held()


def test_a_stolen_lease_is_lost_at_once(api: KubernetesApi, clock: Clock, kubernetes: ScriptedKubernetes) -> None:
    lock = a_lock(api, clock)
    lock.try_acquire()
    stolen = kubernetes.leases["exporter"]
    stolen["spec"]["holderIdentity"] = "thief"
    stolen["metadata"]["resourceVersion"] = "999"
    with pytest.raises(LeaseLost):
        lock.renew()
    assert not lock.is_held()
    assert holder(kubernetes) == "thief"
    assert not lock.release()


def test_a_deleted_lease_is_lost(api: KubernetesApi, clock: Clock, kubernetes: ScriptedKubernetes) -> None:
    lock = a_lock(api, clock)
    lock.try_acquire()
    kubernetes.leases.clear()
    with pytest.raises(LeaseLost):
        lock.renew()
    assert not lock.is_held()


def test_an_edit_of_a_label_is_not_a_theft_and_survives(
    api: KubernetesApi, clock: Clock, kubernetes: ScriptedKubernetes
) -> None:
    lock = a_lock(api, clock)
    lock.try_acquire()
    kubernetes.leases["exporter"]["metadata"] |= {"resourceVersion": "999", "labels": {"a": "b"}}
    lock.renew()
    assert lock.is_held()
    assert kubernetes.leases["exporter"]["metadata"]["labels"] == {"a": "b"}


def test_of_two_that_take_a_free_lease_only_one_succeeds(
    api: KubernetesApi, clock: Clock, kubernetes: ScriptedKubernetes
) -> None:
    first, second = a_lock(api, clock), a_lock(api, clock, "other")
    first.try_acquire()
    first.release()
    found = second._read()
    assert first.try_acquire()
    assert second._may_be_taken(found, clock())
    with pytest.raises(ProvisionerError):
        second._write(found, found.spec, clock())
    assert holder(kubernetes) == "me"


def test_a_released_lease_is_taken_at_once(
    api: KubernetesApi, clock: Clock, kubernetes: ScriptedKubernetes
) -> None:
    leader, standby = a_lock(api, clock), a_lock(api, clock, "other")
    leader.try_acquire()
    assert not standby.try_acquire()
    assert leader.release()
    assert not leader.is_held()
    assert holder(kubernetes) == ""
    assert standby.try_acquire()


def test_an_acquisition_whose_answer_was_lost_is_ours_at_the_next_try(
    api: KubernetesApi, clock: Clock, kubernetes: ScriptedKubernetes
) -> None:
    lock = a_lock(api, clock)
    lock.try_acquire()
    forgetful = a_lock(api, clock)
    assert forgetful.try_acquire()
    assert holder(kubernetes) == "me"


def test_an_api_that_cannot_be_asked_is_an_error_and_no_leadership(
    api: KubernetesApi, clock: Clock, kubernetes: ScriptedKubernetes
) -> None:
    kubernetes.lease_refusals.append(Refusal(503))
    lock = a_lock(api, clock)
    with pytest.raises(Unavailable):
        lock.try_acquire()
    assert not lock.is_held()
