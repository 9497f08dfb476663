"""The table of the further controllers, and the choice among them.

Each is an entry module of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from standins.controlplane.kuberay_controller import KUBERAY_1_5, KUBERAY_1_6
from standins.controlplane.kueue_controller import KUEUE_0_15
from standins.controlplane.leaderworkerset_controller import LWS_0_7
from standins.controlplane.recipe import find_additions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from standins.controlplane.controller import Controller

CONTROLLERS = {each.name: each for each in (KUBERAY_1_5, KUBERAY_1_6, LWS_0_7, KUEUE_0_15)}


class ControllersClash(Exception):
    """Two controllers that were chosen cannot run in one cluster; the text names them."""


def choose_controllers(names: Iterable[str]) -> tuple[Controller, ...]:
    """Return the further controllers of these names, each once.

    Raises:
        UnknownAddition: there is none of a name.
        ControllersClash: two of them are versions of the same.
    """
    chosen = tuple(CONTROLLERS[product.name] for product in find_additions(names))
    owners: dict[str, str] = {}
    for each in chosen:
        if other := owners.get(each.namespace):
            raise ControllersClash(f"controllers: {other} and {each.name} cannot run in one cluster; choose one")
        owners[each.namespace] = each.name
    return chosen
