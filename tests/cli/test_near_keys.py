"""A selector that is almost one of GKE's keys is named with it: no node has such a label."""

import pytest

from cli.planning.checks import find_near_key
from shared.model import labels
from tests.builders import a_template

NEAR = {
    "cloud.google.com/gke-tpu-acelerator": labels.ACCELERATOR,
    "cloud.google.com/gke-gpu-accelerator": labels.ACCELERATOR,
    "google.com/gke-tpu-accelerator": labels.ACCELERATOR,
    "gke-tpu-topology": labels.TOPOLOGY,
    "cloud.google.com/reservation_name": labels.RESERVATION_NAME,
} | dict.fromkeys(("example.com/gke-tpu-acelerator", "cloud.google.com/gke-accelerator-count", "team"))
"""None: another name or domain."""


@pytest.mark.parametrize("key", NEAR)
def test_a_selector_that_is_almost_a_key_of_gke_is_named_with_that_key(key: str) -> None:
    near = NEAR[key]

    assert find_near_key(a_template(selectors={key: "x"})) == (near and (key, near))
