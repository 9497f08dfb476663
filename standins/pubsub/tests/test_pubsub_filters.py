"""The filter language: what matches, and what is refused with the place and what would be valid."""

from __future__ import annotations

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
        ("attributes:domain", {"domain": ""}, True),
        ("attributes:domain", {}, False),
        ('attributes:"iana.org/language_tag"', {"iana.org/language_tag": "en"}, True),
        ('attributes.domain = "com"', {"domain": "com"}, True),
        ('attributes.domain="com"', {"domain": "Com"}, False),
        ('attributes.domain != "com"', {"domain": "org"}, True),
        ('attributes.domain != "com"', {}, True),
        ('attributes.domain != "com"', {"domain": "com"}, False),
        ('hasPrefix(attributes.domain, "co")', {"domain": "com"}, True),
        ('hasPrefix(attributes.domain, "co")', {}, False),
        ('hasPrefix(attributes.domain, "")', {"domain": "x"}, True),
        ('hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")', DEMAND, True),
        ('hasPrefix(attributes."ce-type", "tpuprovisioner.demand.")', DEMAND, True),
        ('NOT hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")', DEMAND, False),
        ('NOT hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")', OVER, True),
        ('NOT hasPrefix(attributes."ce-type", "tpuprovisioner.demand.")', {}, True),
        ("-attributes:a", {}, True),
        ("NOT NOT attributes:a", {"a": "1"}, True),
        ("NOT attributes:a AND attributes:b", {"b": "1"}, True),
        ("attributes:a AND attributes:b AND attributes:c", {"a": "", "b": ""}, False),
        ("attributes:a OR attributes:b OR attributes:c", {"c": ""}, True),
        ("attributes:a AND (attributes:b OR attributes:c)", {"a": "", "c": ""}, True),
        ("(attributes:a AND attributes:b) OR attributes:c", {"c": ""}, True),
        (r'attributes.a = "say \"hi\"\n"', {"a": 'say "hi"\n'}, True),
        (r'attributes.a = "\x41\u0042\U00000043\104"', {"a": "ABCD"}, True),
        ('attributes.NOT = "x"', {"NOT": "x"}, True),
    ],
)
def test_a_filter_matches_what_it_says(text: str, attributes: dict[str, str], expected: bool) -> None:
    assert parse_filter(text).matches(attributes) is expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bogus(", "attributes, hasPrefix, NOT or"),
        ("attributes", ". or :"),
        ("attributes.a", "= or !="),
        ("attributes.a = com", "double quotes"),
        ('attributes.a > "1"', "at position 13"),
        ("attributes:iana.org/language", "must be quoted"),
        ('data = "x"', "attributes, hasPrefix"),
        ("attributes:a and attributes:b", "AND, OR or the end"),
        ("attributes:a AND", "attributes, hasPrefix"),
        ("attributes:a AND attributes:b OR attributes:c", "parentheses"),
        ("(attributes:a", "valid: )"),
        ('hasPrefix(attributes.a "x")', "valid: ,"),
        ('hasSuffix(attributes.a, "x")', "attributes, hasPrefix"),
        ('attributes.a = "unclosed', "at position"),
        (r'attributes.a = "\q"', "escapes"),
        (r'attributes.a = "\U00110000"', "escapes"),
        ('"attributes":a', "attributes, hasPrefix"),
        ('attributes.a = "' + "x" * 256 + '"', "256 bytes"),
    ],
)
def test_a_filter_outside_the_grammar_is_refused_with_what_would_be_valid(text: str, words: str) -> None:
    with pytest.raises(BrokerError) as refusal:
        parse_filter(text)
    assert words in refusal.value.text
    assert "argument=filter" in refusal.value.text


@given(st.text(max_size=60))
def test_any_text_is_either_a_filter_or_a_clear_refusal(text: str) -> None:
    try:
        answer = str(parse_filter(text).matches({}))
    except BrokerError as error:
        answer = error.text
    assert answer in {"True", "False"} or "argument=filter" in answer
