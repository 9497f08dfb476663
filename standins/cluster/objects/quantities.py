"""Resource quantities: `500m`, `1Gi`, `4`, `1e3`.

Grammar: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?")
_SCALE = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
    "Ki": Decimal(1024),
    "Mi": Decimal(1024) ** 2,
    "Gi": Decimal(1024) ** 3,
    "Ti": Decimal(1024) ** 4,
    "Pi": Decimal(1024) ** 5,
    "Ei": Decimal(1024) ** 6,
}


@lru_cache(maxsize=4_096)
def milli_units(quantity: str | float) -> int:
    """Return a quantity in thousandths, rounded up.

    Raises ValueError: when the text is not a quantity.
    """
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None:
        raise ValueError(
            f"{quantity!r} is not a quantity; valid: a number with an optional suffix such as m, k, Mi, Gi"
        )
    value = Decimal(found[1] + (found[2] or ""))
    scaled = value * _SCALE.get(found[3] or "", Decimal(1)) * 1_000
    return int(scaled.to_integral_value(rounding=ROUND_CEILING))


def canonical(quantity: str | float) -> str:
    """Return a quantity as the text that the API server stores; fractions are in thousandths.

    Raises ValueError: when it is not a quantity.
    """
    if isinstance(quantity, str):
        milli_units(quantity)
        return quantity
    whole, rest = divmod(milli_units(quantity), 1_000)
    return f"{milli_units(quantity)}m" if rest else str(whole)
