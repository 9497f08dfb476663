"""Each refusal answers the question "what do I change?": with what is valid, or what to do."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from shared.core.decide.cluster_stops import decide_other_cluster, decide_stop, stop_without_namespace
from shared.core.decide.limits import Usage, decide_limit

import shared.model.workloads
import shared.needs.capacity
import shared.needs.node_selectors
from shared.model import errors
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Rejected
from tests.builders import settings
from tests.demands import a_demand

ROOT = Path(__file__).parents[2]
CORE = ROOT / "shared" / "core"
MODULES = (errors, shared.needs.capacity, shared.needs.node_selectors, shared.model.workloads)
REFUSALS = {
    name
    for module in MODULES
    for name, found in vars(module).items()
    if isinstance(found, type) and issubclass(found, Rejected) and found is not Rejected
}
OF_MESSAGES = {"MalformedEvent", "UnknownCluster"}
"""Of messages that no person writes."""
READ_ELSEWHERE = {"shared/needs/candidates.py: CapacityConflict(template.unreadable_priorities, field=_FIELD)"}
"""Their text has been written with what is valid, where the field was read."""
LIMITS = ("limit_chips", "limit_chips_per_namespace", "limit_slices")


def list_refusals() -> Iterator[tuple[str, ast.Call]]:
    """Return each error of the core that refuses a demand, with its place."""
    for path in sorted(CORE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            call = node.exc if isinstance(node, ast.Raise) else None
            if isinstance(call, ast.Call) and ast.unparse(call.func) in REFUSALS - OF_MESSAGES:
                yield path.relative_to(ROOT).as_posix(), call


def test_each_error_says_what_is_valid() -> None:
    found = list(list_refusals())
    silent = {
        f"{path}: {ast.unparse(call)}"
        for path, call in found
        if not {"field", "value"} & {each.arg for each in call.keywords} or not has_valid(call)
    }

    assert len(found) > 50
    assert silent == READ_ELSEWHERE


def has_valid(call: ast.Call) -> bool:
    """Return whether an error has a text of what is valid that may not be empty."""
    texts = [each.value for each in call.keywords if each.arg == "valid"]
    return bool(texts) and not (isinstance(texts[0], ast.Constant) and not texts[0].value)


@pytest.mark.parametrize(
    "refused",
    [
        decide_other_cluster(),
        decide_stop(Decision(Verdict.CREATE, Reason.POOL_ABSENT, "create it"), stop_without_namespace("ours")),
        *(
            decide_limit(a_demand(), settings(**{limit: 1}), Usage(chips=9, chips_in_namespace=9, slices=9))
            for limit in LIMITS
        ),
    ],
    ids=lambda refused: str(refused.reason),
)
def test_each_refusal_by_a_setting_says_who_can_change_it(refused: Decision) -> None:
    assert refused.reason != Reason.INTERNAL_ERROR
    assert "an operator" in refused.message
