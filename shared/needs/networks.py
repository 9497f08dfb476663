"""Decides which networks the nodes of a pool have besides the cluster's own.

GKE makes the networks of some GPU machines itself: the accelerator network profile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.errors import NotAllowed
from shared.needs.node_selectors import UnsupportedSelector
from shared.settings import is_allowed, name_listed

if TYPE_CHECKING:
    from shared.model.workloads import PodTemplate
    from shared.settings import Settings
    from shared.shapes.shape import Shape

_AUTO = "auto"
_MISSPELT = "networks.gke.io/accelerator-network-profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Networks:
    """The additional networks of a pool's nodes."""

    pairs: tuple[str, ...] = ()
    """``network:subnetwork`` pairs that somebody made."""
    profile: bool = False
    """GKE makes the networks that the machine needs."""
    node_labels: dict[str, str] = field(default_factory=dict)
    """The label of the profile, if the pods select it."""


def read_networks(template: PodTemplate, shape: Shape, settings: Settings) -> Networks:
    """Return the additional networks for the pods of a template.

    Raises:
        UnsupportedSelector: the machine does not have what the pods select.
        NotAllowed: the annotation is no list of pairs, or the settings do not list one of them.
    """
    if template.selects(_MISSPELT):
        raise UnsupportedSelector(
            "no node has this label",
            field="spec.nodeSelector",
            value=_MISSPELT,
            valid=labels.NETWORK_PROFILE,
        )
    profile = _selects_profile(template, shape)
    pairs = _read_pairs(template, settings) or (
        () if profile else settings.node_additional_networks
    )
    keys = {labels.NETWORK_PROFILE: _AUTO} if profile else {}
    return Networks(pairs=pairs, profile=shape.own_networks and not pairs, node_labels=keys)


def _selects_profile(template: PodTemplate, shape: Shape) -> bool:
    """Return whether the pods select the label of the profile, which the nodes can have."""
    key = labels.NETWORK_PROFILE
    if not template.selects(key):
        return False
    wanted = template.find_selector(key) or _AUTO
    if wanted != _AUTO:
        raise UnsupportedSelector("unknown value", field=key, value=wanted, valid=_AUTO)
    if not shape.own_networks:
        raise UnsupportedSelector(
            f"GKE does not make the networks of machine {shape.machine_type}",
            field=key,
            value=wanted,
            valid="remove this selector, or select a GPU machine that needs its own networks",
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
            pair,
            settings.allowed_node_networks,
            labels.ADDITIONAL_NODE_NETWORKS,
            "allowed_node_networks",
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
