"""Can two ever lead, or can one continue without the right? Leases work as in Kubernetes."""

from collections.abc import Callable
from typing import Any

import pytest

from exporter.lease import LeaseLock, LeaseLost
from shared.model.errors import Unavailable
from tests.exporter.scripted_kubernetes import Refusal, ScriptedKubernetes

LEASE_SECONDS = 15


class Leases:
    """One Lease of a scripted API, and the locks of processes on it; time is what the test says."""

    def __init__(self, kubernetes: ScriptedKubernetes) -> None:
        self.kubernetes, self.now = kubernetes, 1_000.0

    def lock(self, identity: str) -> LeaseLock:
        names = {"namespace": "ns", "name": "exporter", "identity": identity}
        return LeaseLock(self.kubernetes.api, **names, lease_seconds=LEASE_SECONDS, clock=lambda: self.now)

    @property
    def spec(self) -> Any:
        return self.kubernetes.leases["exporter"]["spec"]

    def pass_time(self, seconds: str) -> None:
        self.now += int(seconds)

    def cut(self, _network: str) -> None:
        self.kubernetes.__exit__()
        self.kubernetes.api._connection.pool.clear()

    def steal(self, thief: str) -> None:
        self.spec["holderIdentity"] = thief
        self.kubernetes.leases["exporter"]["metadata"]["resourceVersion"] = "999"


EVENTS: dict[str, Callable[[Leases, str], object]] = {
    "+": Leases.pass_time,
    "no": Leases.cut,
    "stolen": Leases.steal,
    "old": lambda leases, _: leases.spec.update(renewTime="1999-01-01T00:00:00.000000Z"),
    "length": lambda leases, seconds: leases.spec.update(leaseDurationSeconds=int(seconds)),
    "deleted": lambda leases, _: leases.kubernetes.leases.clear(),
    "refused": lambda leases, codes: leases.kubernetes.lease_refusals.extend(
        Refusal(int(code)) if code != "-" else None for code in codes.split(",")
    ),
}
FACTS = {"holder": "holderIdentity", "moves": "leaseTransitions", "lasts": "leaseDurationSeconds"}


@pytest.fixture
def leases(kubernetes: ScriptedKubernetes) -> Leases:
    return Leases(kubernetes)


ROWS = {
    "one that does not exist is created": "me holds no; me takes yes; me holds yes; holder me; moves 0; lasts 15",
    "a held one is taken only after it stood still for its whole length": (
        "me takes yes; other takes no; + 14; other takes no; + 1; other takes yes; holder other; moves 1"
    ),
    "a standby never trusts the times in the record": "me takes yes; old times; other takes no",
    "renewing keeps the standby out": f"me takes yes{'; + 5; me renews yes; other takes no' * 10}; holder me",
    "without a network it is held for two thirds of its length": (
        "me takes yes; no network; + 9; me renews yes; me holds yes; + 1; me holds no; me renews no"
    ),
    "one that was not renewed in time is lost": "me takes yes; + 10; me holds no; me renews no",
    "without a network it is not released": "me takes yes; no network; me releases no; me holds no",
    "its length is what its holder wrote": (
        "me takes yes; length 30; other takes no; + 15; other takes no; + 15; other takes yes"
    ),
    "a stolen one is lost at once": (
        "me takes yes; stolen thief; me renews no; me holds no; holder thief; me releases no; holder thief"
    ),
    "a deleted one is lost": "me takes yes; deleted now; me renews no; me holds no",
    "a released one is taken at once": (
        "me takes yes; other takes no; me releases yes; me holds no; holder -; lasts 1; other takes yes"
    ),
    "one whose answer was lost is ours at the next try": "me takes yes; me/again takes yes; holder me",
    "of two that take a free one, the second is refused": (
        "me takes yes; me releases yes; refused -,409; other takes no; other holds no"
    ),
    "one that appears between look and take is another's": "refused -,409; me takes no; me holds no",
    "an API that cannot be asked gives no right": "refused 503; me takes error; me holds no",
}
"""What processes do with the Lease, what befalls it, and how each ends."""


ACTS: dict[str, Callable[[LeaseLock], bool | None]] = {
    "takes": LeaseLock.try_acquire,
    "holds": LeaseLock.is_held,
    "renews": LeaseLock.renew,
    "releases": LeaseLock.release,
}


def ask(lock: LeaseLock, act: str) -> str:
    """Return how an act ended."""
    try:
        return "no" if ACTS[act](lock) is False else "yes"
    except LeaseLost:
        return "no"
    except Unavailable:
        return "error"


@pytest.mark.parametrize("steps", ROWS.values(), ids=ROWS)
def test_a_lease_is_held_by_one_who_has_the_right(leases: Leases, steps: str) -> None:
    locks: dict[str, LeaseLock] = {}
    for step in steps.split("; "):
        who, *words, wanted = step.split()
        if who in EVENTS:
            EVENTS[who](leases, wanted)
        elif who in FACTS:
            assert str(leases.spec.get(FACTS[who])) == wanted.strip("-"), step
        else:
            lock = locks.setdefault(who, leases.lock(who.partition("/")[0]))
            assert ask(lock, words[0]) == wanted, step


def test_the_leader_stops_before_the_standby_may_start(leases: Leases) -> None:
    leader, standby = leases.lock("me"), leases.lock("other")
    assert (leader.try_acquire(), standby.try_acquire()) == (True, False)
    assert leader.retry_seconds * 4 == LEASE_SECONDS * 2 / 3, "it may fail to renew three times"
    both = []
    for _ in range(LEASE_SECONDS * 4):
        leases.now += 0.5
        both.append(leader.is_held() and standby.try_acquire())
    assert not any(both)
    assert standby.try_acquire() or standby.is_held()
