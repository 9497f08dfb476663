"""What the rule says of a slice by the template of its pods, where the spec says the same."""

from typing import Any

from shared.model.decisions import Decision, Verdict
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
    found = expect_decision(decide_shape(use, **shape))
    assert found.verdict == Verdict.REFUSE
    return found
