"""Rules between capacity types.

Spot, reservations, flex-start and queued provisioning exclude each other.

Source: https://cloud.google.com/kubernetes-engine/docs/concepts/dws, /docs/concepts/spot-vms and
the preconditions of https://github.com/GoogleCloudPlatform/cluster-toolkit
(modules/compute/gke-node-pool). Pure; raises INVALID_ARGUMENT.
"""

import re

from standins.google.gke.errors import invalid, invalid_field
from standins.google.gke.model.machines import Machine
from standins.google.gke.model.proto_messages import Message, ReservationType, is_autoscaled, is_queued

RESERVATION_KEY = "compute.googleapis.com/reservation-name"
_WEEK = 7 * 86_400
_VALUE = re.compile(
    r"(?:projects/[^/]+/reservations/)?[a-z](?:[-a-z0-9]*[a-z0-9])?"
    r"(?:/reservationBlocks/[^/]+(?:/reservationSubBlocks/[^/]+)?)?"
)


def check_tier(pool: Message, machine: Machine) -> None:
    """Refuse combinations of capacity types that GKE refuses."""
    config = pool.config
    _check_affinity(pool, machine)
    reserved = config.reservation_affinity.consume_reservation_type not in (
        ReservationType.UNSPECIFIED,
        ReservationType.NO_RESERVATION,
    )
    chosen = [
        name
        for name, on in (
            ("spot", config.spot),
            ("preemptible", config.preemptible),
            ("flex_start", config.flex_start),
            ("reservation_affinity", reserved),
        )
        if on
    ]
    if is_queued(pool) and not config.flex_start:
        chosen.append("queued_provisioning")
    if len(chosen) > 1:
        raise invalid(f"Node pool settings {' and '.join(chosen)} exclude each other.")
    if config.flex_start:
        _check_flex_start(pool, machine)
    if is_queued(pool):
        _check_queued(pool)


def _check_affinity(pool: Message, machine: Machine) -> None:
    affinity = pool.config.reservation_affinity
    kind = affinity.consume_reservation_type
    if kind == ReservationType.SPECIFIC_RESERVATION:
        if affinity.key != RESERVATION_KEY:
            raise invalid_field("reservation_affinity.key", affinity.key, f'Must be "{RESERVATION_KEY}".')
        if len(affinity.values) != 1 or _VALUE.fullmatch(affinity.values[0]) is None:
            raise invalid_field(
                "reservation_affinity.values",
                ",".join(affinity.values),
                "Must be one value: NAME or projects/P/reservations/NAME, with /reservationBlocks/B or "
                "/reservationBlocks/B/reservationSubBlocks/S behind it where needed.",
            )
        return
    if affinity.key or affinity.values:
        raise invalid("reservation_affinity.key and .values need consume_reservation_type SPECIFIC_RESERVATION.")
    if machine.is_tpu and kind in (ReservationType.ANY_RESERVATION, ReservationType.ANY_RESERVATION_THEN_FAIL):
        raise invalid("TPU node pools consume specific reservations only; ANY_RESERVATION is not supported.")


def _check_flex_start(pool: Message, machine: Machine) -> None:
    if not is_autoscaled(pool):
        raise invalid("Flex start node pools require autoscaling enabled.")
    if pool.initial_node_count != 0:
        raise invalid("Flex start node pools require initial node count to be set to 0.")
    if pool.autoscaling.min_node_count != 0:
        raise invalid("Flex start node pools require autoscaling.min_node_count to be set to 0.")
    if pool.management.auto_repair:
        raise invalid("Flex start node pools require auto repair to be disabled.")
    if machine.family is not None and not machine.family.flex_start:
        raise invalid(f'Machine type "{machine.name}" does not support flex start.')
    if pool.config.max_run_duration.seconds > _WEEK:
        raise invalid_field(
            "config.max_run_duration", f"{pool.config.max_run_duration.seconds}s", "At most 7 days (604800s)."
        )


def _check_queued(pool: Message) -> None:
    if not is_autoscaled(pool):
        raise invalid("Queued provisioning requires autoscaling enabled.")
    if pool.initial_node_count != 0 or pool.autoscaling.min_node_count != 0:
        raise invalid("Queued provisioning requires initial and minimum node count to be set to 0.")
