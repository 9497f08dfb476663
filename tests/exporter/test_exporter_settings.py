"""Are settings refused with every problem at once, each named with what would be valid?"""

import pytest

from exporter.exporter_settings import ExporterSettings, read_exporter_settings
from shared.model.errors import Misconfigured
from tests.exporter.exporter_builders import CLUSTER, TOPIC

GOOD = {"TPU_PROVISIONER_CLUSTER": CLUSTER, "TPU_PROVISIONER_TOPIC": TOPIC}


def test_two_settings_are_enough() -> None:
    assert read_exporter_settings(GOOD) == ExporterSettings(cluster=CLUSTER, topic=TOPIC)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CLUSTER", "projects/p/clusters/c"),
        ("TOPIC", "projects/p/topics/1starts-with-digit"),
        ("HTTP_PORT", "65536"),
        ("KINDS", "JobSet,DaemonSet"),
        ("LEASE_SECONDS", "601"),
        ("LEASE_NAME", "Not_A_Name"),
        ("LEASE_NAMESPACE", "-x"),
    ],
)
def test_a_malformed_value_is_named(name: str, value: str) -> None:
    with pytest.raises(Misconfigured, match=f"TPU_PROVISIONER_{name}: "):
        read_exporter_settings(GOOD | {f"TPU_PROVISIONER_{name}": value})


def test_an_empty_value_counts_as_absent() -> None:
    assert read_exporter_settings(GOOD | {"TPU_PROVISIONER_HTTP_PORT": ""}).http_port == 8080


def test_probes_are_answered_on_every_address_only_in_a_cluster() -> None:
    assert read_exporter_settings(GOOD).http_address == "0.0.0.0"
    assert read_exporter_settings(GOOD | {"TPU_PROVISIONER_ENDPOINT": "http://h"}).http_address == "127.0.0.1"
