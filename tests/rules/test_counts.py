"""Numbers, amounts and times of objects: a value within the bounds, or none."""

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.edges.pods import parse_quantity, read_template
from shared.engine.budget import Key
from shared.engine.look import Look, view
from shared.kinds import read
from shared.kinds.read import UnexpectedValue
from shared.kinds.table import KINDS, get_kind
from shared.model.pools import NodePool, PoolStatus
from shared.model.times import COUNT_MAX, SECONDS_MAX, bound_count, parse_count, parse_time
from tests.builders import CLUSTER, NOW, a_claim, a_jobset, a_pool, settings
from tests.rules.workloads import a_body

HUGE = "9" * 400
LONGER_THAN_PYTHON_READS = "9" * 5000


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("0", 0), ("007", 7), ("25", 25), (HUGE, COUNT_MAX), (LONGER_THAN_PYTHON_READS, COUNT_MAX)),
        *(("0" * 5000 + "1", 1), ("1111111111", 1111111111), (str(COUNT_MAX + 1), COUNT_MAX)),
        *((text, None) for text in ("", "-1", "1.5", "nan", "٣", " 1")),
    ],
    ids=range(14),
)
def test_a_text_is_a_bounded_count_or_none(text: str, number: int | None) -> None:
    assert parse_count(text) == number


@pytest.mark.parametrize(
    ("whole", "text", "part"),
    [
        (3, "25%", 1),
        (3, "0%", 0),
        (3, f"{HUGE}%", -(-3 * COUNT_MAX // 100)),
        (500, f"{HUGE}%", COUNT_MAX),
        (0, f"{HUGE}%", 0),
        (3, 10**400, COUNT_MAX),
    ],
    ids=range(6),
)
def test_a_surge_is_rounded_up_and_bounded(whole: int, text: object, part: int) -> None:
    assert read.surge({"maxSurge": text}, replicas=whole, default=0) == part


@pytest.mark.parametrize("text", ["25", "%", "5%5%", "-5%", True, 1.5])
def test_a_surge_that_is_neither_a_number_nor_a_percentage_is_refused(text: object) -> None:
    with pytest.raises(UnexpectedValue, match="maxSurge: is not valid"):
        read.surge({"maxSurge": text}, replicas=3, default=0)


@pytest.mark.parametrize(("number", "bounded"), [(5, 5), (10**400, COUNT_MAX), (-(10**400), -COUNT_MAX)])
def test_a_number_of_an_object_is_bounded(number: int, bounded: int) -> None:
    assert bound_count(number) == bounded
    assert read.number({"spec": {"replicas": number}}, "spec", "replicas") == bounded


@pytest.mark.parametrize("wrong", [True, 1.5, float("nan"), float("inf"), "3", [3]])
def test_what_is_no_whole_number_is_refused_by_its_path(wrong: object) -> None:
    with pytest.raises(UnexpectedValue, match=r"spec\.replicas"):
        read.number({"spec": {"replicas": wrong}}, "spec", "replicas")


FIELDS = ("replicas", "parallelism", "completions", "minReplicas", "maxReplicas", "numOfHosts", "size")


@pytest.mark.parametrize("number", [10**400, -(10**400), -1, 0])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.watched], ids=lambda kind: kind.name)
def test_every_kind_reads_any_number(kind: Any, number: int) -> None:
    """Whatever field has it: each of them stands where a kind may read it."""
    counts: dict[str, Any] = dict.fromkeys(FIELDS, number)
    template = {"template": a_body()}
    groups = {
        "replicatedJobs": [{"name": "w", **counts, "template": {"spec": counts | template}}],
        "workerGroupSpecs": [{"groupName": "w", **counts, **template}],
        "leaderWorkerTemplate": {"workerTemplate": a_body(), "leaderTemplate": a_body(), **counts},
        "headGroupSpec": template,
    }
    metadata = {"namespace": "default", "name": "x", "uid": "u", "generation": number}
    body = {"metadata": metadata, "spec": counts | template | groups, "status": counts | {"active": number}}

    found = kind.read(body, read_template)

    assert all(abs(group.replicas) <= COUNT_MAX for group in found.groups)


def test_a_pool_whose_labels_name_giant_numbers_has_bounded_ones() -> None:
    labelled = a_pool(claim=a_claim()).labels
    giant = {key: HUGE if value.isdigit() else value for key, value in labelled.items()}
    owner = NodePool(name="p", status=PoolStatus.RUNNING, labels=giant).owner

    assert owner is not None
    assert owner.created_at == SECONDS_MAX


AMOUNTS = {"4": "4", "1500m": "1.5", "2Ki": "2048", "1e3": "1000", "1E": "1E18", ".5": "0.5", "2k": "2000"}
NO_AMOUNTS = ("", "many", "-1", "1 Gi", "1Xi", "1e", "None", "1e999", "٣")


@pytest.mark.parametrize(("text", "amount"), [*AMOUNTS.items(), *((text, None) for text in NO_AMOUNTS)])
def test_an_amount_is_read_as_kubernetes_writes_it(text: str, amount: str | None) -> None:
    assert parse_quantity(text) == (Decimal(amount) if amount else None)


@given(st.text(max_size=40))
def test_no_text_breaks_the_reading_of_an_amount(text: str) -> None:
    found = parse_quantity(text)
    assert found is None or found >= 0


# --- times that other clocks wrote are bounded by our own ---


HOUR = 3600.0


@pytest.mark.parametrize(("ahead", "since"), [(-10, -10), (60, 0), (61, -60), (HOUR, -60), (math.inf, -60)])
def test_a_suspension_far_ahead_of_our_clock_began_after_the_pools_were_made(ahead: float, since: float) -> None:
    workload, pool = a_jobset(suspended=True, suspended_since=NOW + ahead), a_pool(age_seconds=60)
    key = Key(CLUSTER, "JobSet", workload.namespace, workload.name)
    look = Look(key=key, workload=workload, pools={pool.name: pool}, now=NOW)

    assert view(look, settings()).suspended_since == NOW + since


@pytest.mark.parametrize("text", [None, "", "yesterday", "2027-13-01T00:00:00Z"])
def test_a_time_that_cannot_be_read_is_no_time(text: str | None) -> None:
    assert parse_time(text) is None
    assert parse_time("2027-01-15T09:00:00.5+01:00") == 1_800_000_000.5


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_time_beyond_the_calendar_never_raises(text: str) -> None:
    assert parse_time(text) is None or abs(parse_time(text) or 0) < 10**12


def read_suspended(kind: str, *fields: dict[str, Any]) -> float | None:
    metadata = {"namespace": "default", "name": "x", "uid": "u", "managedFields": list(fields)}
    body = {"metadata": metadata, "spec": {"suspend": True}}
    return get_kind(kind).read(body, read_template).suspend_set_at


def a_field(time: object, *fields: str) -> dict[str, Any]:
    return {"manager": "kueue", "time": time, "fieldsV1": {"f:spec": {f"f:{each}": {} for each in fields}}}


@pytest.mark.parametrize("kind", ["JobSet", "Job", "RayCluster"])
def test_the_api_server_records_when_the_suspension_was_written(kind: str) -> None:
    early, late = "2027-01-15T07:00:00Z", "2027-01-15T08:00:00Z"

    assert read_suspended(kind, a_field(early, "suspend"), a_field(late, "suspend", "replicas")) == NOW
    assert read_suspended(kind, a_field(early, "suspend"), a_field(late, "replicas")) == NOW - HOUR
    assert read_suspended(kind, a_field("", "suspend")) is None
    assert read_suspended(kind) is None
