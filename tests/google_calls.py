"""Finds the calls of Google APIs in source text, for the tests of rights and of assumptions."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_NAMED = ("list_entries",)  # calls of a client that are known by their name only


def list_calls(*rooms: str) -> set[tuple[str, str]]:
    """Return the calls in all modules of rooms."""
    paths = (path for room in rooms for path in (ROOT / room).rglob("*.py"))
    return {call for path in paths for call in google_calls(path.read_text())}


def google_calls(source: str) -> Iterator[tuple[str, str]]:
    """Yield verb and path of each ``….call("VERB", f"path")``, what is filled in as ``{}``.

    Of a client's call, ``self.call("method", …)``, ``self._call("method", …)`` or
    ``….method(…, retry=…)``, yield the method.
    """
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        name = node.func.attr
        if name in _NAMED or any(each.arg == "retry" for each in node.keywords):
            yield "a client", name
        elif name in ("call", "_call") and node.args:
            verb = node.args[0]
            assert isinstance(verb, ast.Constant), "a call whose verb is not written out cannot be judged"
            if name == "_call" or str(verb.value).islower():
                yield "a client", str(verb.value)
                continue
            path = node.args[1]
            assert isinstance(path, ast.JoinedStr), "a call whose path is not written out cannot be judged"
            parts = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in path.values]
            yield str(verb.value), "".join(parts)
