"""Each refusal answers the question "what do I change?": with what is valid, or what to do."""

import ast
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from shared.model import errors

ROOT = Path(__file__).parents[2]
RULES = ("model", "kinds", "shapes", "needs", "plan")
"""The rooms of `shared` that may refuse a demand."""
REFUSALS = {name for name, each in vars(errors).items() if isinstance(each, partial)}
OF_MESSAGES = {"MalformedEvent", "UnknownCluster"}  # of messages that no person writes
READ_ELSEWHERE = {
    f"shared/needs/ways.py: CapacityConflict({text}, field=_FIELD)"
    for text in ("str(error)", "f'candidate {number}, {way}: {misfit}'")
}
"""Their text has been written with what is valid, where the field was read."""


def list_refusals() -> Iterator[tuple[str, ast.Call]]:
    """Return each error of the rules that refuses a demand, with its place."""
    for path in sorted(path for room in RULES for path in (ROOT / "shared" / room).rglob("*.py")):
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
