"""An event's trace is its own, survives the message, and is believed only in its exact form."""

import pytest

from shared.core.messages import format_message, parse_message
from shared.traces import TRACE_ATTRIBUTE, add_trace, build_log_field, read_trace_id
from tests.builders import CLUSTER, a_demand_event, an_over_event

SPAN = "b7ad6b7169203331"


def test_the_trace_has_the_events_id_whoever_reports_it() -> None:
    first, second = (add_trace(format_message(a_demand_event()), a_demand_event()) for _ in range(2))

    assert first == second
    assert read_trace_id(first.attributes) == a_demand_event().id
    assert read_trace_id(first.attributes) != read_trace_id(
        add_trace(format_message(an_over_event()), an_over_event()).attributes
    )


def test_a_traced_message_says_the_same_event() -> None:
    traced = add_trace(format_message(a_demand_event()), a_demand_event())

    assert parse_message(traced.data, traced.attributes) == a_demand_event()


@pytest.mark.parametrize(
    "message",
    [
        "",
        "00",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{'a' * 32}-{'0' * 16}-01",
        f"00-{'A' * 32}-{SPAN}-01",
        f"00-{'a' * 31}-{SPAN}-01",
        f"00-{'a' * 32}-{SPAN}-01 projects/other/traces/x",
    ],
)
def test_what_is_no_traceparent_is_no_trace(message: str) -> None:
    assert read_trace_id({TRACE_ATTRIBUTE: message}) == ""
    assert build_log_field(CLUSTER, "") == {}


def test_the_log_field_is_that_of_the_clusters_project() -> None:
    project = CLUSTER.split("/")[1]

    assert build_log_field(CLUSTER, "a" * 32) == {
        "logging.googleapis.com/trace": f"projects/{project}/traces/{'a' * 32}"
    }
