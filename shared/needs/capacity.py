"""Reads which capacity tier a pod selects, and refuses what GKE does not offer.

Selectors: https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms,
https://cloud.google.com/kubernetes-engine/docs/how-to/consuming-reservations,
https://cloud.google.com/kubernetes-engine/docs/concepts/dws.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.counts import parse_count
from shared.model.errors import CapacityConflict
from shared.model.needs import Tier
from shared.needs.refusals import check_listed
from shared.settings import FLEX_WAIT_SECONDS
from shared.shapes.catalogue import TPU_FAMILIES

if TYPE_CHECKING:
    from shared.model.workloads import PodTemplate
    from shared.settings import Settings
    from shared.shapes.shape import Shape

RESOURCE_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
PROJECT = re.compile(r"[a-z][-a-z0-9.:]{4,61}[a-z0-9]")
FLEX_SECONDS_MIN, FLEX_SECONDS_MAX = 600, 604_800
"""Ten minutes to seven days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """One capacity tier with its parameters."""

    tier: Tier
    reservation: str = ""
    reservation_project: str = ""
    """Empty: the cluster's own."""
    reservation_block: str = ""
    reservation_subblock: str = ""
    max_run_duration_seconds: int = 0
    """Longest run time of flex-start nodes; 0 for the other tiers."""

    @property
    def reservation_path(self) -> str:
        """Return the value of ``reservation_affinity``: a name or a path.

        The path of a block in a reservation of the cluster's own project lacks the project, which
        `shared.needs.nodepool` adds.
        """
        path = self.reservation
        if self.reservation_project:
            path = f"projects/{self.reservation_project}/reservations/{path}"
        if self.reservation_block:
            path += f"/reservationBlocks/{self.reservation_block}"
        if self.reservation_subblock:
            path += f"/reservationSubBlocks/{self.reservation_subblock}"
        return path


def read_capacity(
    template: PodTemplate, shape: Shape, cluster: str, settings: Settings
) -> Capacity:
    """Return the capacity tier that a pod selects; on-demand when it selects none."""
    if settings.force_on_demand:
        return Capacity(tier=Tier.ON_DEMAND)
    tiers = _list_tiers(template)
    if len(tiers) > 1:
        raise CapacityConflict(
            "the pod selects more than one of spot, flex-start and reservation",
            field="spec.nodeSelector",
            value=" + ".join(tiers),
            valid="one of them",
        )
    tier = tiers[0] if tiers else Tier.ON_DEMAND
    if tier == Tier.RESERVATION:
        return _read_reservation(template, cluster, settings)
    if tier == Tier.FLEX_START:
        text = template.find_selector(labels.MAX_RUN_DURATION)
        seconds = parse_count(text or str(settings.max_run_duration_seconds))
        check_flex_start(seconds, shape, text or "")
        return Capacity(tier=tier, max_run_duration_seconds=seconds or 0)
    return Capacity(tier=tier)


def read_flex_wait(template: PodTemplate, settings: Settings) -> int:
    """Return the seconds that a flex-start pool may wait for its first node; 0 without end.

    The annotation replaces the setting. A pool that waits costs nothing, so both have one bound.
    """
    text = template.annotations.get(labels.FLEX_START_WAIT, str(settings.flex_start_wait_seconds))
    seconds = parse_count(text)
    if seconds is None or not FLEX_WAIT_SECONDS.accepts(seconds):
        field = f"annotation {labels.FLEX_START_WAIT}"
        raise CapacityConflict(
            "not a time to wait", field=field, value=text, valid=FLEX_WAIT_SECONDS.text
        )
    return seconds


def find_tier(template: PodTemplate) -> Tier | None:
    """Return the first tier that a template names; None if it leaves the tier open."""
    tiers = _list_tiers(template)
    standard = template.find_selector(labels.PROVISIONING) == "standard"
    return tiers[0] if tiers else Tier.ON_DEMAND if standard else None


def _list_tiers(template: PodTemplate) -> list[Tier]:
    provisioning = template.find_selector(labels.PROVISIONING)
    affinity = template.find_selector(labels.RESERVATION_AFFINITY)
    if provisioning == "preemptible" or template.find_selector(labels.PREEMPTIBLE) == "true":
        raise CapacityConflict(
            "preemptible nodes are not supported; spot nodes replace them",
            field=labels.PREEMPTIBLE,
            value="true",
            valid=f"{labels.SPOT}: 'true'",
        )
    _expect(labels.PROVISIONING, provisioning, ("standard", "spot", "flex-start"))
    _expect(labels.RESERVATION_AFFINITY, affinity, ("specific",))
    for key in (labels.SPOT, labels.FLEX_START):
        if template.selects(key):
            _expect(key, template.find_selector(key) or "no value", ("true",))
    keys = (labels.SPOT, labels.FLEX_START, labels.RESERVATION_NAME, labels.RESERVATION_AFFINITY)
    tiers = (Tier.SPOT, Tier.FLEX_START, Tier.RESERVATION, Tier.RESERVATION)
    selected = {
        tier for key, tier in zip(keys, tiers, strict=True) if template.list_values(key)
    } | {provisioning}
    return [tier for tier in (Tier.SPOT, Tier.FLEX_START, Tier.RESERVATION) if tier in selected]


def _expect(key: str, value: str | None, valid: tuple[str, ...]) -> None:
    if value is not None and value not in valid:
        raise CapacityConflict(
            "GKE does not offer this value",
            field=key,
            value=value,
            valid=f"{', '.join(valid)}; or remove the selector",
        )


def check_names(capacity: Capacity) -> None:
    """Accept a reservation whose names are valid."""
    names = (
        (labels.RESERVATION_NAME, capacity.reservation, RESOURCE_NAME),
        (labels.RESERVATION_PROJECT, capacity.reservation_project or "own-project", PROJECT),
        (labels.RESERVATION_BLOCKS, capacity.reservation_block or "none", RESOURCE_NAME),
        (labels.RESERVATION_SUBBLOCKS, capacity.reservation_subblock or "none", RESOURCE_NAME),
    )
    for key, value, rule in names:
        if not rule.fullmatch(value):
            raise CapacityConflict("not a name", field=key, value=value, valid=rule.pattern)


def _read_reservation(template: PodTemplate, cluster: str, settings: Settings) -> Capacity:
    capacity = Capacity(
        tier=Tier.RESERVATION,
        reservation=template.find_selector(labels.RESERVATION_NAME) or "",
        reservation_project=template.find_selector(labels.RESERVATION_PROJECT) or "",
        reservation_block=template.find_selector(labels.RESERVATION_BLOCKS) or "",
        reservation_subblock=template.find_selector(labels.RESERVATION_SUBBLOCKS) or "",
    )
    check_names(capacity)
    if capacity.reservation_subblock and not capacity.reservation_block:
        raise CapacityConflict(
            "the pod selects a sub-block without its block",
            field=labels.RESERVATION_BLOCKS,
            valid="the name of the block",
        )
    check_reservation(capacity, cluster, settings)
    return capacity


def check_reservation(capacity: Capacity, cluster: str, settings: Settings) -> None:
    """Accept a reservation that the settings list, and any other capacity."""
    project, name = capacity.reservation_project, capacity.reservation
    setting, listed = "allowed_reservations", settings.allowed_reservations
    field = labels.RESERVATION_NAME
    if project not in ("", cluster.split("/")[1]):
        setting, listed = "allowed_shared_reservations", settings.allowed_shared_reservations
        field, name = labels.RESERVATION_PROJECT, f"{project}/{name}"
    if name:
        check_listed(name, listed, setting, field)


def check_flex_start(seconds: int | None, shape: Shape, text: str = "") -> None:
    """Accept a run time, or its text, and a shape for which GKE offers flex-start."""
    if shape.gpus:
        raise CapacityConflict(
            "flex-start is not supported for GPUs",
            field=labels.FLEX_START,
            value=shape.accelerator,
            valid="on-demand, spot or a reservation; or a node pool with GKE's own autoscaling",
        )
    if not shape.flex_start:
        raise CapacityConflict(
            f"GKE does not offer flex-start for {shape.generation}",
            field=labels.FLEX_START,
            value=shape.accelerator,
            valid=", ".join(
                dict.fromkeys(each.generation for each in TPU_FAMILIES if each.flex_start)
            ),
        )
    if seconds is None or not FLEX_SECONDS_MIN <= seconds <= FLEX_SECONDS_MAX:
        raise CapacityConflict(
            "the run time is out of range",
            field=labels.MAX_RUN_DURATION,
            value=text or str(seconds),
            valid=f"{FLEX_SECONDS_MIN} to {FLEX_SECONDS_MAX} seconds",
        )
