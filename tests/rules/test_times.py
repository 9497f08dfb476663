"""Times that other clocks wrote are bounded by our own."""

from typing import Any

import pytest

from shared.edges.pods import read_template
from shared.kinds.table import get_kind
from shared.model.times import measure_seconds, parse_time
from tests.builders import NOW

HOUR = 3600.0


@pytest.mark.parametrize(
    ("since", "seconds"),
    [
        (None, None),
        (NOW - 10, 10.0),
        (NOW, 0.0),
        (NOW + 60, 0.0),
        (NOW + 61, None),
        (NOW + HOUR, None),
        (float("inf"), None),
    ],
)
def test_a_time_ahead_of_ours_counts_as_now_or_says_nothing(since: float | None, seconds: float | None) -> None:
    assert measure_seconds(since, NOW) == seconds


def test_times_are_read_with_zone_and_fraction() -> None:
    assert parse_time("2027-01-15T09:00:00.5+01:00") == 1_800_000_000.5


@pytest.mark.parametrize("text", [None, "", "yesterday", "2027-13-01T00:00:00Z"])
def test_a_time_that_cannot_be_read_is_no_time(text: str | None) -> None:
    assert parse_time(text) is None


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
