"""Kubernetes' way to write amounts: ``4``, ``1500m``, ``16Gi``, ``1e3``.

Grammar: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

_QUANTITY = re.compile(
    r"(\+?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30}))(?:[eE]([+-]?[0-9]{1,2})|([a-zA-Z]{1,2}))?"
)
_SCALES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal("1e3"),
    **{prefix: Decimal(1000) ** power for power, prefix in enumerate("MGTPE", start=2)},
    **{f"{prefix}i": Decimal(1024) ** power for power, prefix in enumerate("KMGTPE", start=1)},
}


@lru_cache(maxsize=1024)
def parse_quantity(text: str) -> Decimal | None:
    """Return an amount that is not below zero; None for a text that is no such amount."""
    found = _QUANTITY.fullmatch(text)
    if found is None or (found[3] and found[3] not in _SCALES):
        return None
    return Decimal(found[1]).scaleb(int(found[2] or 0)) * _SCALES.get(found[3] or "", Decimal(1))
