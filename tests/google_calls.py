"""Finds the calls of Google APIs in source text, for the tests of rights and of assumptions."""

import ast
from collections.abc import Iterator

_NAMED = ("list_entries",)  # calls of a client that are known by their name only


def google_calls(source: str) -> Iterator[tuple[str, str]]:
    """Yield verb and path of each ``….call("VERB", f"path")``, what is filled in as ``{}``.

    Of a client's call, ``self.call("method", …)``, ``self._call("method", …)`` or
    ``….method(…, retry=…)``, yield the method.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "_call":
            assert isinstance(node.args[0], ast.Constant), "write out the method of a call"
            yield "a client", str(node.args[0].value)
        retried = isinstance(node, ast.Call) and any(each.arg == "retry" for each in node.keywords)
        if retried and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield "a client", node.func.attr
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _NAMED:
            yield "a client", node.func.attr
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "call"
            and node.args
        ):
            verb, path = node.args[0], node.args[1]
            if isinstance(verb, ast.Constant) and str(verb.value).islower():
                yield "a client", str(verb.value)
                continue
            assert isinstance(verb, ast.Constant), "a call whose verb is not written out cannot be judged"
            assert isinstance(path, ast.JoinedStr), "a call whose path is not written out cannot be judged"
            parts = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in path.values]
            yield str(verb.value), "".join(parts)
