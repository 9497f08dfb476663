"""What a real project answered to `conformance`, as far as the simulator's GKE can play it.

The switches mean what they mean to the fake GKE, whose reader of the report this is.
"""

from __future__ import annotations

import functools
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from shared.core.errors import AlreadyExists, Busy, ProvisionerError
from standins.fakegke.faults import fault_rules as rules
from standins.fakegke.faults.scenario import Scenario as Told
from standins.fakegke.faults.scenario import Timings, load_answers

VARIABLE = "FAKEGKE_ANSWERS"
"""The report's path; the fake GKE reads the same variable."""
TRIES_SECONDS = 2104.0
"""Quoted messages say "after 35m4s" to "after 35m11s"."""
F = TypeVar("F", bound=rules.Fault)


@dataclass(frozen=True, slots=True)
class Answers:
    """What GKE does in all scenarios; the defaults are the model's own, for no report."""

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
    unplayed: tuple[str, ...] = ()
    """The switches and timings of the report that the model does not have."""


OWN = Answers()
"""What the model does where no report says anything else."""


@functools.cache
def read_answers(path: str) -> Answers:
    """Return what the model plays of a report; its own answers for an empty path.

    Raises:
        ScenarioError: the file is not a report; the text says what is valid.
    """
    if not path:
        return OWN
    told = Told()
    faults = load_answers(Path(path), told)
    unplayed = {str(each.__struct_config__.tag) for each in faults}

    def find(default: F) -> F:
        unplayed.discard(str(default.__struct_config__.tag))
        return next((each for each in faults if isinstance(each, type(default))), default)

    again = {"exists": AlreadyExists, "precondition": Busy}
    get_lag, stale = find(rules.ReadLag(seconds=0.0)).seconds, find(rules.StaleList(seconds=0.0))
    hidden, usual = find(rules.Get404AfterCreate(count=0)).count, Timings()
    changed = {key for key in usual.__struct_fields__ if getattr(told.timings, key) != getattr(usual, key)}
    return Answers(
        create_while_creating=again[find(rules.DupCreateInflight(answer="precondition")).answer],
        create_while_stopping=again[find(rules.CreateWhileStopping(answer="precondition")).answer],
        hidden_reads=math.inf if hidden is None else hidden,
        get_lag=get_lag,
        list_lag=max(get_lag, stale.seconds),
        lists_created=stale.seconds > 0 and stale.created,
        running_max=find(rules.MaxRunningOps()).value,
        open_max=find(rules.MaxInflightOps(value=100)).value,
        operations_kept=find(rules.OpGc(seconds=usual.keep_operations)).seconds,
        audit_delay=find(rules.AuditEntries()).delay,
        tries_gpu=told.timings.stockout if "stockout" in changed else TRIES_SECONDS,
        tries_tpu=told.timings.stockout_atomic if "stockout_atomic" in changed else TRIES_SECONDS,
        unplayed=(*sorted(unplayed), *sorted(changed - {"stockout", "stockout_atomic"})),
    )


def get_answers() -> Answers:
    """Return the answers of the report that the variable names."""
    return read_answers(os.environ.get(VARIABLE, ""))
