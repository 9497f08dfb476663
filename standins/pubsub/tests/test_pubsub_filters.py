"""The filters: what matches, and what is refused with what would be valid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standins.pubsub.model.errors import BrokerError
from standins.pubsub.model.filters import parse_filter

DEMAND = {"ce-type": "tpuprovisioner.demand.v1"}
OVER = {"ce-type": "tpuprovisioner.workload-over.v1"}


@pytest.mark.parametrize(
    ("text", "attributes", "expected"),
    [
        ("", {}, True),
        ("   ", {}, True),
        ('attributes.domain = "com"', {"domain": "com"}, True),
        ('attributes.domain="com"', {"domain": "Com"}, False),
        ('attributes."iana.org/language_tag" = "en"', {"iana.org/language_tag": "en"}, True),
        ('NOT attributes.domain = "com"', {}, True),
        ('hasPrefix(attributes.domain, "co")', {"domain": "com"}, True),
        ('hasPrefix(attributes.domain, "co")', {}, False),
        ('hasPrefix(attributes.domain, "")', {"domain": "x"}, True),
        ('hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")', DEMAND, True),
        ('hasPrefix(attributes."ce-type", "tpuprovisioner.demand.")', DEMAND, True),
        ('NOT hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")', DEMAND, False),
        ('NOT hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")', OVER, True),
        ('NOT hasPrefix(attributes."ce-type", "tpuprovisioner.demand.")', {}, True),
        ('attributes.NOT = "x"', {"NOT": "x"}, True),
    ],
)
def test_a_filter_matches_what_it_says(text: str, attributes: dict[str, str], expected: bool) -> None:
    assert parse_filter(text)(attributes) is expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bogus(", "[NOT] hasPrefix"),
        ("attributes.a", "[NOT] hasPrefix"),
        ("attributes.a = com", "[NOT] hasPrefix"),
        ('attributes.iana.org/language = "en"', "other keys than words in quotes"),
        ('data = "x"', "[NOT] hasPrefix"),
        ('attributes.a = "1" AND attributes.b = "2"', "[NOT] hasPrefix"),
        ("attributes:a", "[NOT] hasPrefix"),
        ('hasPrefix(attributes.a "x")', "[NOT] hasPrefix"),
        ('attributes.a = "unclosed', "[NOT] hasPrefix"),
        (r'attributes.a = "\x41"', "[NOT] hasPrefix"),
        ('attributes.a = "' + "x" * 256 + '"', "256 bytes"),
    ],
)
def test_another_filter_is_refused_with_what_would_be_valid(text: str, words: str) -> None:
    with pytest.raises(BrokerError) as refusal:
        parse_filter(text)
    assert words in refusal.value.text
    assert "argument=filter" in refusal.value.text


@given(st.text(max_size=60))
def test_any_text_is_either_a_filter_or_a_clear_refusal(text: str) -> None:
    try:
        answer = str(parse_filter(text)({}))
    except BrokerError as error:
        answer = error.text
    assert answer in {"True", "False"} or "argument=filter" in answer
