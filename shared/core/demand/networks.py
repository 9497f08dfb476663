"""Decides which networks the nodes of a pool have besides the cluster's own.

GKE makes the networks of an accelerator itself (the accelerator network profile), and its managed
DRANET driver gives them to pods that claim devices:
https://cloud.google.com/kubernetes-engine/docs/how-to/allocate-network-resources-dra.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.demand.node_selectors import UnsupportedSelector
from shared.core.errors import NotAllowed
from shared.core.settings import is_allowed, name_listed

if TYPE_CHECKING:
    from shared.core.settings import Settings
    from shared.core.shapes.shape import Shape
    from shared.core.workloads import PodTemplate

_DRIVEN = (
    "ct6e-standard-1t",
    "ct6e-standard-4t",
    "ct6e-standard-8t",
    "tpu7x-standard-4t",
    "a3-ultragpu-8g",
    "a4-highgpu-8g",
    "a4x-highgpu-4g",
    "a4x-maxgpu-4g-metal",
)
"""The machines whose networks GKE's managed DRANET driver gives to pods."""
_MISSPELT = "networks.gke.io/accelerator-network-profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Networks:
    """The additional networks of a pool's nodes."""

    pairs: tuple[str, ...] = ()
    """``network:subnetwork`` pairs that somebody made."""
    profile: bool = False
    """GKE makes the networks that the machine needs."""
    node_labels: dict[str, str] = field(default_factory=dict)
    """The labels that turn on the driver, or that the pods select."""


def read_networks(template: PodTemplate, shape: Shape, settings: Settings) -> Networks:
    """Return the additional networks for the pods of a template.

    Pods that claim devices get the driver where it exists. Where it does not, the claims may be for
    other devices, so nothing is added. Pods that name networks by GKE's multi-network annotation do
    not get the driver, since GKE does not support both.

    Raises:
        UnsupportedSelector: the machine does not have what the pods select.
        NotAllowed: the annotation is no list of pairs, or the settings do not list one of them.
    """
    if template.selects(_MISSPELT):
        raise UnsupportedSelector(
            "no node has this label", field="spec.nodeSelector", value=_MISSPELT, valid=labels.NETWORK_PROFILE
        )
    driven = shape.machine_type in _DRIVEN
    profile = _selects(template, labels.NETWORK_PROFILE, "auto", shape, known=driven or shape.own_networks)
    driver = _selects(template, labels.NETWORK_DRIVER, "true", shape, known=driven) or (
        driven and template.claims_devices and labels.POD_INTERFACES not in template.annotations
    )
    keys = {labels.NETWORK_PROFILE: "auto"} if profile else {}
    keys |= {labels.NETWORK_DRIVER: "true"} if driver else {}
    named = _read_pairs(template, settings)
    pairs = named or (() if profile else settings.node_additional_networks)
    return Networks(pairs=pairs, profile=(profile or driver or shape.own_networks) and not pairs, node_labels=keys)


def _selects(template: PodTemplate, key: str, value: str, shape: Shape, *, known: bool) -> bool:
    """Return whether the pods select a label of the networks, which the nodes can have."""
    if not template.selects(key):
        return False
    wanted = template.find_selector(key) or value
    if wanted != value:
        raise UnsupportedSelector("unknown value", field=key, value=wanted, valid=value)
    if not known:
        raise UnsupportedSelector(
            f"GKE does not make the networks of machine {shape.machine_type}",
            field=key,
            value=wanted,
            valid=f"remove this selector, or select accelerators of {', '.join(_DRIVEN)}",
        )
    return True


def _read_pairs(template: PodTemplate, settings: Settings) -> tuple[str, ...]:
    text = template.annotations.get(labels.ADDITIONAL_NODE_NETWORKS, "")
    pairs = tuple(pair.strip().replace(" ", "") for pair in text.split(",") if pair.strip())
    for pair in pairs:
        if pair.count(":") != 1 or not all(pair.split(":")):
            raise NotAllowed(
                "not a pair of network and subnetwork",
                field=f"annotation {labels.ADDITIONAL_NODE_NETWORKS}",
                value=pair,
                valid="network:subnetwork, separated by commas",
            )
        check_listed(
            pair, settings.allowed_node_networks, labels.ADDITIONAL_NODE_NETWORKS, "allowed_node_networks"
        )
    return pairs


def check_listed(value: str, patterns: tuple[str, ...], annotation: str, setting: str) -> None:
    """Accept the value of an annotation that the operator's setting lists.

    Raises:
        NotAllowed: it does not.
    """
    if not is_allowed(value, patterns):
        raise NotAllowed(
            f"the setting {setting} does not list this value",
            field=f"annotation {annotation}",
            value=value,
            valid=name_listed(patterns),
        )
