"""What the rule says of a slice by the template of its pods, where the spec says the same."""

from dataclasses import dataclass
from typing import Any

from shared.model.decisions import Decision, Reason, Verdict
from shared.needs.nodepool import Demand
from shared.settings import Settings
from tests.builders import CLUSTER, a_jobset, a_pod, a_template, expect_decision, settings
from tests.demands import decide_demand


def decide_shape(use: Settings | None = None, **shape: Any) -> Demand | Decision:
    """Decide about the leader of a 4x4 slice of v6e, unless another shape is asked for."""
    template = a_template(**shape)
    return decide_demand(CLUSTER, a_pod(template=template), a_jobset(template=template), use or settings())


def refuse_shape(use: Settings | None = None, **shape: Any) -> Decision:
    """Return the refusal of a shape."""
    decision = expect_decision(decide_shape(use, **shape))
    assert decision.verdict == Verdict.REFUSE
    return decision


@dataclass(frozen=True)
class Refused:
    """A row: why a shape is refused, and words that its owner reads."""

    reason: Reason
    words: tuple[str, ...]
    use: dict[str, Any]
    shape: dict[str, Any]

    def check(self) -> None:
        """Expect the refusal."""
        expect_words(refuse_shape(settings(**self.use), **self.shape), self.reason, *self.words)


def no(reason: Reason, *words: str, use: dict[str, Any] | None = None, **shape: Any) -> Refused:
    """Return a row; what is more goes to `a_template`."""
    return Refused(reason, words, use or {}, shape)


def expect_words(found: object, reason: Reason, *words: str, verdict: Verdict = Verdict.REFUSE) -> str:
    """Return the message of a decision, which has a reason and these words."""
    decision = expect_decision(found)
    assert (decision.verdict, decision.reason) == (verdict, reason), decision.message
    assert [word for word in words if word not in decision.message] == [], decision.message
    return decision.message
