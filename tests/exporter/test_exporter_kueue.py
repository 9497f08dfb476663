"""The watch of Kueue's Workloads reports each reservation of quota that waits for a check once."""

import logging
from typing import Any

import pytest
from msgspec import structs

from exporter.health import Role
from exporter.observed_objects import ObservedQueues, watch_queues
from shared.edges.kueue import read_queued
from shared.model.kueue import QueuedWorkload
from shared.model.messages import Event, EventType
from shared.model.names import ObjectName
from standins.kit.processes import wait_until
from tests.exporter.exporter_builders import CLUSTER
from tests.exporter.scripted_kubernetes import Listing, Refusal, ScriptedKubernetes
from tests.exporter.test_exporter_watch import Follow
from tests.rules.test_kueue import CHECKS, OWNER, a_workload

READY = [each | {"state": "Ready"} for each in CHECKS]
LATER = 1_800_000_000.0
FIRST = ("demand", "quota since 2026-11-23T11:00:00Z")


def queued(**changes: Any) -> QueuedWorkload:
    return read_queued(a_workload(**changes))


def test_a_reservation_names_the_workload_that_it_is_for() -> None:
    (event,) = ObservedQueues(CLUSTER).see(queued())

    assert event == Event(
        type=EventType.DEMAND,
        cluster=CLUSTER,
        subject=ObjectName(kind="JobSet", namespace="default", name="train", uid="uid-of-train"),
        cause="quota since 2026-11-23T11:00:00Z",
    )


def test_it_is_reported_once_and_again_when_the_quota_was_lost_and_is_back() -> None:
    observed, waits = ObservedQueues(CLUSTER), queued()

    assert len(list(observed.see(waits))) == 1
    assert not observed.see(structs.replace(waits, version="8"))
    assert (observed.standing, len(observed)) == (1, 1)
    assert not observed.see(queued(conditions={"QuotaReserved": "False"}))
    assert (observed.standing, len(observed)) == (0, 1)
    (again,) = observed.see(structs.replace(waits, reserved_at=LATER))
    assert again.cause == "quota since 2027-01-15T08:00:00Z"
    assert not observed.lose(waits)
    assert (observed.standing, len(observed)) == (0, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"conditions": {}},
        {"conditions": {"QuotaReserved": "True", "Evicted": "True"}},
        {"checks": []},
        {"checks": READY},
        {"checks": [CHECKS[0], CHECKS[1] | {"state": "Retry"}]},
        {"ownerReferences": []},
        {"ownerReferences": [OWNER | {"kind": "MPIJob"}]},
        {"deletionTimestamp": "2026-11-23T11:00:00Z"},
    ],
    ids=["no quota", "evicted", "no check", "ready", "retry", "no owner", "unknown kind", "deleted"],
)
def test_what_waits_for_nothing_is_not_reported(changes: dict[str, Any]) -> None:
    assert not ObservedQueues(CLUSTER).see(queued(**changes))


@pytest.mark.parametrize(
    ("refusal", "missing"),
    [
        (Refusal(404, "NotFound"), "is the Kueue operator installed?"),
        (Refusal(403, "Forbidden"), "apply the chart infra/helm with kueue=true"),
    ],
)
def test_without_kueue_or_the_role_the_exporter_is_ready_and_goes_on_when_it_comes(
    kubernetes: ScriptedKubernetes,
    follow: Follow,
    refusal: Refusal,
    missing: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    following = follow(watch_queues(), lists=[refusal])
    following.health.role = Role.LEADER

    wait_until(lambda: following.health.readiness()[0])

    assert missing in str(following.health.readiness()[1])
    kubernetes.lists["workloads"].append(Listing((a_workload(),)))
    following.wait_for(FIRST)
    warned = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert bool(warned) == (refusal.code == 403), "only what an operator has to mend is a warning"
