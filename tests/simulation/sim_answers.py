"""How GKE answers in a scenario, where its documents leave it open."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core.errors import AlreadyExists

if TYPE_CHECKING:
    from shared.core.errors import ProvisionerError

TRIES_SECONDS = 2104.0
"""Quoted messages say "after 35m4s" to "after 35m11s"."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What GKE does in a scenario; a test may let it differ."""

    create_while_creating: type[ProvisionerError] = AlreadyExists
    create_while_stopping: type[ProvisionerError] = AlreadyExists
    hidden_reads: float = 0
    """So many reads of each new pool do not find it."""
    get_lag: float = 0.0
    """How old each answer about one pool is, in seconds."""
    list_lag: float = 0.0
    lists_created: bool = False
    """Whether a list has a new pool only when it is created."""
    running_max: float = math.inf
    """So many operations of a cluster run at one time; further ones wait."""
    open_max: float = math.inf
    """With so many operations that run or wait, GKE refuses a further one."""
    operations_kept: float = math.inf
    """How long the list of operations has one after its end, in seconds."""
    audit_delay: float = 0.0
    tries_gpu: float = TRIES_SECONDS
    """How long GKE looks for machines before a creation fails, in seconds."""
    tries_tpu: float = TRIES_SECONDS


OWN = Answers()
"""What the model does in all scenarios but those of a test."""
