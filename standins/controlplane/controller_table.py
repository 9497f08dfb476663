"""The table of the further controllers, and the choice among them.

Each is an entry module of its own.
"""

from collections.abc import Iterable

from standins.controlplane.controller import Controller
from standins.controlplane.kuberay_controller import KUBERAY_1_5, KUBERAY_1_6
from standins.controlplane.kueue_controller import KUEUE_0_15
from standins.controlplane.leaderworkerset_controller import LWS_0_7
from standins.controlplane.recipe import UnknownAddition, find_additions

CONTROLLERS = {each.name: each for each in (KUBERAY_1_5, KUBERAY_1_6, LWS_0_7, KUEUE_0_15)}


class ControllersClash(Exception):
    """Two controllers that were chosen cannot run in one cluster; the text names them."""


def choose_controllers(names: Iterable[str]) -> tuple[Controller, ...]:
    """Return the further controllers of these names, each once.

    Raises:
        UnknownAddition: there is none of a name, or it is no part of a control plane.
        ControllersClash: two of them are versions of the same.
    """
    products = find_additions(names)
    if apart := [product.name for product in products if product.name not in CONTROLLERS]:
        raise UnknownAddition(
            f"controller: {', '.join(apart)} is built here, but needs a cloud to run; "
            f"valid: {', '.join(CONTROLLERS)}"
        )
    chosen = tuple(CONTROLLERS[product.name] for product in products)
    owners: dict[str, str] = {}
    for each in chosen:
        if other := owners.get(each.namespace):
            raise ControllersClash(f"controllers: {other} and {each.name} cannot run in one cluster; choose one")
        owners[each.namespace] = each.name
    return chosen
