"""A capacity list's text: GKE's words become items, anything else an error with its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.capacity_texts import UnreadableList, read_ways
from shared.model.errors import Misconfigured
from shared.settings import read_settings
from tests.builders import CLUSTER

NO_LISTS = ("- [", "a: &a [*a]\n- *a", "- spot: \x00", "\ud800", "[" * 1000)
NO_OBJECTS = ("- !!int abc", "- !!timestamp 9", "- !!python/object:os.system x", "- " + "9" * 5000)
RESERVED, FLEX = "- reservations: ", "- flexStart: {enabled: true}\n  maxRunDurationSeconds: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "valid: a list like") for text in NO_LISTS),
        *((text, "Expected `object`, got `str` at [0]") for text in NO_OBJECTS),
        ("", "Expected `array`, got `"),
        ("[]", "the list is empty"),
        ("spot: true", "Expected `array`, got `object`"),
        ("- spott: true", "unknown field `spott` at [0]"),
        ("- {}\n- spot: maybe", "Expected `bool`, got `str` at [1].spot"),
        ("- machineFamily: ct6e", "unknown field `machineFamily` at [0]"),
        ("- &a {spot: true}\n- *a", "aliases are not supported; valid: a list like"),
        (
            "- spot: true\n  flexStart: {enabled: true}",
            "spot and flexStart exclude each other at [0]; valid: one of them",
        ),
        (
            "- {}\n- spot: true\n  reservations: {specific: [{name: r}]}",
            "spot and reservations exclude each other at [1]",
        ),
        (
            "- maxRunDurationSeconds: 900",
            "maxRunDurationSeconds is for flex-start only at [0]; valid: with flexStart: {enabled: true}",
        ),
        (RESERVED + "{specific: []}", "`array` of length >= 1 at [0].reservations.specific"),
        (
            RESERVED + "{affinity: AnyBestEffort, specific: [{name: r}]}",
            "Invalid enum value 'AnyBestEffort' at [0].reservations.affinity",
        ),
        (RESERVED + "{specific: [{project: p}]}", "missing required field `name` at [0].reservations"),
        ("- location: {zones: us-east5-a}", "Expected `array`, got `str` at [0].location.zones"),
        ("- {}\n" * 4000, "has 20000 characters; valid: at most 8192"),
        ("- spot: 2024-13-45", "Expected `bool`, got `str` at [0].spot"),
        (FLEX + "9" * 5000, "Integer value out of range at [0]"),
        ("- <<: {spot: true}", "unknown field `<<` at [0]"),
        ("--- []\n--- []", "expected a single document"),
        ("- {? [a] : b}", "found unhashable key"),
    ],
)
def test_any_other_text_is_an_error_that_names_the_place(text: str, message: str) -> None:
    with pytest.raises(UnreadableList) as caught:
        read_ways(text)

    assert message in str(caught.value)
    assert "valid: " in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


MARKS = ["- ", "\n", ": ", "{", "}", "[", "]", "&a ", "*a", "!!int ", "? ", "<<", "'"]
WORDS = st.sampled_from([*MARKS, "spot", "true", "location", "zones"])


@given(st.lists(WORDS | st.text(max_size=3), max_size=12).map("".join))
def test_no_text_fails_in_another_way(text: str) -> None:
    message = "valid: "
    try:
        read_ways(text)
    except UnreadableList as error:
        message = str(error)

    assert "valid: " in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"namespace": "a", "priorities": [{}]}]', "unknown field `namespace`"),
        ('[{"priorities": []}]', "the list is empty"),
        ("[{}]", "missing required field `priorities`"),
        ("spot", "Expected `array`, got `str`"),
    ],
)
def test_a_wrong_policy_stops_the_start_with_the_name_of_the_variable(text: str, message: str) -> None:
    variables = {
        "TPU_PROVISIONER_CLUSTERS": f'{{"{CLUSTER}": {{"endpoint": "https://a.gke.goog"}}}}',
        "TPU_PROVISIONER_CAPACITY_POLICIES": text,
    }
    with pytest.raises(Misconfigured, match="TPU_PROVISIONER_CAPACITY_POLICIES") as caught:
        read_settings(variables)

    assert message in str(caught.value)
