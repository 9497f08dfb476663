"""Log records become chip-hours and waits: each kind of record, and each kind that is missing."""

from typing import Any

import pytest

from cli.usage.folding import GAP_SECONDS, UsageFold
from cli.usage.hours import HOUR_SECONDS, Account, Cause, Hours

NOON = 1_800_014_400.0
"""2027-01-15T12:00:00Z."""
CLAIM = {"cluster": "c", "kind": "JobSet", "namespace": "team", "name": "train", "owner_uid": "u", "slice": "s"}
SHAPE = {"machine_type": "ct6e-standard-4t", "node_count": 4, "chips": 16, "accelerator": "tpu-v6e-slice"}
WHERE = {"tier": "spot", "zone": "us-east5-b", "labels": {"team": "red"}}
MINUTE = 60.0


class Told:
    """Records in the order of time, from noon on."""

    def __init__(self) -> None:
        self.fold = UsageFold(NOON, lambda claim, _size: claim["namespace"])
        self._swept = 0.0

    def leader(self, at: float, decision: str, reason: str, *, function: str = "provision", **more: Any) -> None:
        """What was answered to the leader of the slice."""
        known = {"function": function, "decision": decision, "reason": reason, "pool": "p-0", "attempt": 0}
        subject = {"subject": "Pod team/train-0", "claim": CLAIM}
        self.fold.see(NOON + at, {"message": "m", **known, **subject, **SHAPE, **WHERE, **more})

    def pool(self, at: float, decision: str, reason: str, *, function: str = "settle", **more: Any) -> None:
        """What was decided about the pool."""
        known = {"function": function, "decision": decision, "reason": reason, "pool": "p-0"}
        self.fold.see(NOON + at, {"message": "m", **known, "subject": "node pool p-0", "claim": CLAIM, **more})

    def sweeps(self, until: float, keep: int = 1, errors: int = 0, **reasons: int) -> None:
        """The ends of a sweep in each minute until a time."""
        while self._swept + MINUTE <= until:
            self._swept += MINUTE
            counts = {"keep": keep, "errors": errors}
            self.fold.see(NOON + self._swept, {"message": "swept", "counts": counts, "reasons": reasons})

    def begin(self) -> None:
        """A slice that waited for 10 s gets a pool, which GKE has created after 100 s."""
        self.leader(0, "create", "pool_absent", waited_seconds=10)
        self.leader(60, "wait", "pool_in_progress", function="sweep")
        self.sweeps(60)
        self.pool(100, "keep", "pool_created")

    def total(self, at: float) -> Account:
        """The account at a time."""
        return self.fold.total(NOON + at)


def hours(account: Account) -> dict[str, float]:
    """The chip-hours of everything as seconds of the pool, without zeros."""
    found = account.sum_all().chip_hours
    return {name: round(value * HOUR_SECONDS / 16) for name, value in found.items() if value}


def waits(account: Account) -> dict[str, float]:
    """The waits as seconds, without zeros."""
    return {name: round(value * HOUR_SECONDS) for name, value in account.sum_all().waited.items() if value}


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_plain_life_is_starting_then_used_until_its_delete_and_use_has_its_list_price(told: Told) -> None:
    told.begin()
    told.sweeps(3600)
    told.pool(3700, "delete", "workload_over", function="collect")

    account = told.total(7200)

    assert hours(account) == {"starting": 100, "used": 3600}
    assert waits(account) == {"creation": 100}  # the 10 s before the begin of the time do not count
    assert account.sum_all().slices == 1
    row = account.sum_groups()["team"]
    assert row.dollars == {"spot": pytest.approx(16 * 1.215)}  # the price of cli/market.yaml in us-east5
    assert row.unpriced == 0


def test_hours_count_for_their_day_in_utc(told: Told) -> None:
    told.begin()
    told.sweeps(13 * 3600, keep=1, owner_live=1)

    days = {day: row.chip_hours[Hours.USED] for day, row in told.total(13 * 3600).sum_days().items()}

    assert days == {"2027-01-15": pytest.approx(16 * (12 - 100 / 3600)), "2027-01-16": pytest.approx(16)}


def test_a_creation_that_fails_is_wasted_and_then_the_slice_pauses(told: Told) -> None:
    told.leader(0, "create", "pool_absent")
    for at in (60, 120, 180, 240):
        told.leader(at, "wait", "pool_in_progress", function="sweep")
        told.sweeps(at)
    pause = {"failure": "stockout", "next_try": "2027-01-15T12:10:00Z"}
    told.leader(270, "wait", "stockout", function="settle", **pause)
    told.leader(300, "wait", "stockout", function="sweep", **pause)
    told.sweeps(300, stockout=1, pool_failed=1)
    told.leader(600, "create", "pool_failed", pool="p-1", attempt=1, failure="stockout", zone="us-east5-a")

    account = told.total(700)

    assert hours(account) == {"wasted": 270, "starting": 100}
    assert waits(account) == {"creation": 370, "pause": 330}


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("stockout", Cause.STOCKOUT),
        ("quota_exceeded", Cause.QUOTA),
        ("limit_reached", Cause.LIMIT),
        ("pool_taken", Cause.QUEUE),
        ("shape_unsupported", Cause.REFUSED),
    ],
)
def test_a_wait_has_the_cause_of_its_last_record(told: Told, reason: str, cause: Cause) -> None:
    told.leader(0, "refuse", reason)
    told.leader(60, "refuse", reason, function="sweep")
    told.sweeps(60)

    assert waits(told.total(90)) == {str(cause): 90}


def test_a_slice_that_a_sweep_does_not_name_has_stopped_to_wait_in_between(told: Told) -> None:
    told.leader(60, "refuse", "limit_reached", function="sweep")
    told.sweeps(60)
    told.sweeps(600)

    assert waits(told.total(600)) == {"limit": 30}


def test_a_sweep_with_errors_says_nothing_of_slices_that_it_does_not_name(told: Told) -> None:
    told.leader(60, "refuse", "limit_reached", function="sweep")
    told.sweeps(60)
    told.sweeps(600, errors=1)

    assert waits(told.total(600)) == {"limit": 540}


def test_a_suspended_workload_leaves_its_pool_idle_until_it_is_deleted(told: Told) -> None:
    told.begin()
    told.sweeps(1000)
    told.pool(1000, "keep", "grace_not_over", function="collect")
    told.sweeps(1300, grace_not_over=1)
    told.pool(1310, "delete", "workload_suspended", function="sweep")

    assert hours(told.total(3600)) == {"starting": 100, "used": 900, "idle": 310}


@pytest.mark.parametrize("reason", ["pool_warm", "mode_report_only", "gke_busy"])
def test_a_pool_that_is_kept_after_its_workload_is_idle(told: Told, reason: str) -> None:
    told.begin()
    told.sweeps(1000)
    told.pool(1000, "keep", reason, function="collect")
    told.sweeps(1500)

    assert hours(told.total(1500)) == {"starting": 100, "used": 900, "idle": 500}


def test_a_workload_that_is_resumed_in_its_grace_uses_its_pool_again(told: Told) -> None:
    told.begin()
    told.sweeps(1000)
    told.pool(1000, "keep", "grace_not_over", function="collect")
    told.sweeps(1140, grace_not_over=1)
    told.sweeps(2000, owner_live=1)

    assert hours(told.total(2000)) == {"starting": 100, "used": 900 + 830, "idle": 170}


def test_a_pool_that_stays_for_the_next_workload_is_idle_as_its_marks_say(told: Told) -> None:
    told.begin()
    told.sweeps(1000)
    told.pool(1000, "keep", "pool_warm", function="collect")
    told.sweeps(1200)
    told.fold.see(NOON + 1260, {"pool": "p-0", "state": "in use", "nodes": 4, "message": "marked"})
    told.sweeps(2000)

    assert hours(told.total(2000)) == {"starting": 100, "used": 900 + 770, "idle": 230}


def test_a_time_without_sweeps_is_unknown(told: Told) -> None:
    told.begin()
    told.sweeps(600)
    told.fold.see(NOON + 5000, {"message": "swept", "counts": {"keep": 1}, "reasons": {"owner_live": 1}})

    account = told.total(5100)

    assert hours(account) == {"starting": 100, "used": 600, "unknown": 4400}
    assert account.gaps == [(NOON + 600, NOON + 5000)]


def test_a_log_that_ends_early_leaves_the_rest_unknown(told: Told) -> None:
    told.begin()
    told.sweeps(600)

    assert hours(told.total(600 + GAP_SECONDS - 1)).keys() == {"starting", "used"}
    assert hours(told.total(4000))["unknown"] == 3400


def test_a_pool_without_the_record_of_its_create_has_no_chips(told: Told) -> None:
    told.pool(100, "keep", "pool_created")
    told.sweeps(3600)
    told.pool(3700, "delete", "workload_over", function="collect")

    account = told.total(7200)

    assert hours(account).keys() <= {"unknown"}
    assert account.sizeless_pools == 1
    assert account.sizeless_hours == pytest.approx(1.0)


def test_pools_that_no_record_names_are_counted_by_the_sweeps(told: Told) -> None:
    told.sweeps(3600, keep=3, owner_live=3)

    assert told.total(3600).nameless_hours == pytest.approx(3.0)


def test_a_pool_whose_end_has_no_record_ends_with_the_sweep_that_keeps_none(told: Told) -> None:
    told.begin()
    told.sweeps(1200, keep=1)
    told.sweeps(2000, keep=0)

    assert hours(told.total(2000)) == {"starting": 100, "used": 1130}


def test_if_one_of_several_pools_ended_without_record_the_hours_are_told_as_too_many(told: Told) -> None:
    told.begin()
    other = {**CLAIM, "slice": "t"}
    told.leader(100, "create", "pool_absent", pool="q-0", claim=other)
    told.pool(130, "keep", "pool_created", pool="q-0", subject="node pool q-0", claim=other)
    told.sweeps(600, keep=2)
    told.sweeps(600 + 3600, keep=1)

    assert told.total(600 + 3600).endless_hours == pytest.approx(1.0)


def test_what_was_created_before_the_begin_counts_from_the_begin_on() -> None:
    told = Told()
    told.leader(-90_000, "create", "pool_absent")
    told.sweeps(3600)

    account = told.total(3600)

    assert hours(account) == {"used": 3600}
    assert account.sum_all().slices == 0


def test_a_slice_runs_on_the_pool_of_another_slice_of_its_workload_if_it_has_none(told: Told) -> None:
    told.leader(0, "create", "pool_absent")
    other = {**CLAIM, "slice": "t"}
    for at in (60, 120):
        told.leader(at, "wait", "pool_in_progress", function="sweep")
        if at == 60:
            told.leader(at, "refuse", "limit_reached", function="sweep", claim=other, pool="q-0")
        told.sweeps(at)

    assert hours(told.total(120)) == {"starting": 90, "used": 30}


def test_the_fold_keeps_nothing_of_slices_that_ended(told: Told) -> None:
    told.begin()
    told.sweeps(600)
    told.pool(700, "delete", "workload_over", function="collect")

    assert told.fold.size == 0
