"""A selector that is almost one of GKE's keys is told by name: no node has such a label."""

import pytest

from cli.planning.checks import find_near_key
from shared.model import labels
from tests.builders import a_template


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("cloud.google.com/gke-tpu-acelerator", labels.ACCELERATOR),
        ("cloud.google.com/gke-gpu-accelerator", labels.ACCELERATOR),
        ("google.com/gke-tpu-accelerator", labels.ACCELERATOR),
        ("gke-tpu-topology", labels.TOPOLOGY),
        ("cloud.google.com/gke-tpu-topolgy", labels.TOPOLOGY),
        ("cloud.google.com/reservation_name", labels.RESERVATION_NAME),
    ],
)
def test_a_selector_that_is_almost_a_key_of_gke_is_told_with_that_key(key: str, near: str) -> None:
    assert find_near_key(a_template(selectors={key: "x"})) == (key, near)


@pytest.mark.parametrize(
    "key", ["example.com/gke-tpu-acelerator", "cloud.google.com/gke-accelerator-count", "team", "gke-boot-disk"]
)
def test_a_selector_of_another_name_or_domain_is_no_near_miss(key: str) -> None:
    assert find_near_key(a_template(selectors={key: "x"})) is None
