"""What Cloud Monitoring measured, for those commands that ask for a metric."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from shared.model.errors import JSON_ERRORS, Unavailable

if TYPE_CHECKING:
    from shared.edges.google import GoogleSession


class _Value(msgspec.Struct, rename="camel"):
    int64_value: str = "0"


class _Point(msgspec.Struct):
    value: _Value = msgspec.field(default_factory=_Value)


class _Series(msgspec.Struct):
    points: list[_Point] = []


class _TimeSeries(msgspec.Struct, rename="camel"):
    time_series: list[_Series] = []


def read_points(monitoring: GoogleSession, project: str, query: dict[str, str]) -> list[list[int]]:
    """Return the whole numbers of each time series of Cloud Monitoring that has some.

    https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.timeSeries/list
    """
    body = monitoring.call("GET", f"v3/projects/{project}/timeSeries?{urlencode(query)}")
    try:
        series = msgspec.json.decode(body or b"{}", type=_TimeSeries).time_series
    except JSON_ERRORS as error:
        raise Unavailable(f"Cloud Monitoring's answer cannot be read: {error}") from error
    return [[int(point.value.int64_value) for point in each.points] for each in series if each.points]
