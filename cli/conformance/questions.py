"""A question about Google: what is done to ask it, the assumed answer, and what is seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Verdict(StrEnum):
    """What an answer says about the assumption."""

    AS_ASSUMED = "as assumed"
    DIFFERS = "differs"
    NO_ANSWER = "no answer"
    """It was asked, and an error or the end of the time was the answer."""
    NOT_ASKED = "not asked"


class NotAsked(Exception):
    """A question cannot be asked here; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What Google answered."""

    text: str
    """In the words of the assumed answer, so that both can be compared."""
    details: dict[str, str] = field(default_factory=dict)
    """Google's own words, and figures."""
    faults: tuple[dict[str, Any], ...] = ()
    """What makes the fake GKE answer so too, as its option ``--faults`` takes it. It is empty if
    the fake does so anyway, or has no switch for it."""
    timings: dict[str, float] = field(default_factory=dict)
    """The same for its section ``timings``."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question."""

    name: str
    minutes: float
    """For how long it runs at most, without the clean-up."""
    ask: Callable[..., Seen]
    """It is given the lab of `cli.conformance.probe_pools`."""
    assumed: str
    does: str
    """What is done to ask it, for the plan that a person agrees to."""
    needs_tpu: bool = False
    """It creates pools of the machine that ``--tpu`` names."""


def question(
    name: str, *, minutes: float, assumed: str, needs_tpu: bool = False
) -> Callable[[Callable[..., Seen]], Question]:
    """Return what makes a question of a function, whose docstring says first what it does."""

    def make(ask: Callable[..., Seen]) -> Question:
        return Question(name, minutes, ask, assumed, (ask.__doc__ or "").partition("\n")[0], needs_tpu)

    return make


def judge(question: Question, seen: Seen) -> Verdict:
    """Return whether the answer is the assumed one."""
    return Verdict.AS_ASSUMED if seen.text == question.assumed else Verdict.DIFFERS
