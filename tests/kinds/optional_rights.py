"""The optional rights of the chart, for the service accounts of the local stack."""

from pathlib import Path
from typing import Any

from standins.controlplane.chart import read_local_chart

NAMESPACE = "tpu-provisioner"
_CHART = Path(__file__).resolve().parents[2] / "infra/helm"


def read_optional_rights(value: str) -> list[dict[str, Any]]:
    """Return the roles and bindings that a value of the chart adds."""
    usual = read_local_chart(_CHART)
    return [each for each in read_local_chart(_CHART, {value: True}) if each not in usual]
