"""A failed creation in the fake GKE: its class, its end, and whether a reservation is held."""

import pytest

from shared.core import labels
from shared.core.decide.failures import Failure, classify_failure
from shared.core.identity.pools import PoolStatus
from tests.builders import CLUSTER
from tests.contract.gke_world import Gke, a_body

CLASSES = {
    "stockout": (Failure.STOCKOUT, 8),
    "quota": (Failure.QUOTA, 8),
    "ip": (Failure.ADDRESSES, 8),
    "reservation": (Failure.RESERVATION, 8),
    "invalid": (Failure.SHAPE, 3),
    "permission": (Failure.RIGHTS, 7),
    "org_policy": (Failure.POLICY, 9),
    "internal": (Failure.INTERNAL, 13),
}
RESERVED = {labels.RESERVATION_NAME: "train", labels.RESERVATION_AFFINITY: "specific"}


@pytest.mark.parametrize("kind", CLASSES)
def test_the_pool_and_its_operation_tell_the_same_class(gke: Gke, kind: str) -> None:
    gke.fault("outcome", kind=kind)
    body = a_body()
    gke.edge.create(CLUSTER, body)
    (running,) = [each for each in gke.edge.list_creations(CLUSTER) if each.pool == body["name"]]
    assert (running.ended, running.ended_at, running.code) == (False, None, 0)
    gke.advance(5000)

    pool = gke.edge.get(CLUSTER, str(body["name"]))
    (made,) = [each for each in gke.edge.list_creations(CLUSTER) if each.pool == body["name"]]
    failure, code = CLASSES[kind]
    assert pool is not None
    assert pool.status == PoolStatus.ERROR
    assert classify_failure(pool.error) == classify_failure(made.error, made.code) == failure
    assert made.code == code
    assert made.began_at is not None
    assert made.ended_at is not None
    assert 0 < made.ended_at - made.began_at < 5000


@pytest.mark.parametrize(
    ("selectors", "told"),
    [({}, (False, False)), (RESERVED, (True, False)), ({labels.SPOT: "true"}, (False, True))],
    ids=["on-demand", "of a reservation", "spot"],
)
def test_a_pool_tells_whether_its_machines_are_of_a_reservation_or_spot(
    gke: Gke, selectors: dict[str, str], told: tuple[bool, bool]
) -> None:
    body = a_body(selectors=selectors)
    gke.edge.create(CLUSTER, body)
    pool = gke.edge.get(CLUSTER, str(body["name"]))

    assert pool is not None
    assert (pool.reserved, pool.spot) == told
    assert pool in gke.edge.list(CLUSTER)
