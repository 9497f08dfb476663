"""Manifests: ``tpu-provisioner plan`` answers each file with a plan or with what is wrong in it."""

import io
import json
from dataclasses import dataclass
from typing import Any
from unittest import mock

import yaml
from rich.console import Console

from cli.access.cli_settings import read_plan_settings
from cli.exit_codes import BadInput
from cli.planning.manifests import read_manifests
from cli.planning.plan import plan, summarize
from cli.planning.plan_table import print_plan
from shared.core.errors import Misconfigured
from tests.fuzz.border import Border, Lost
from tests.fuzz.scenes import EXAMPLES
from tests.fuzz.spoiling import Recipe, list_places, odd_text, odd_value, spoil, spoil_level, spoil_text, write

_TEXT_BYTES_MAX = 12_000
_VALUES_MAX = 1_500
"""YAML takes a second for 100,000 bytes of short values; what is longer is cut, which spoils it
once more."""
_MESSAGE_CHARACTERS_MAX = 2_000
_PLACE = "@yaml:"
_BOMB = "[&b0 [x, x, x, x, x, x, x, x], " + ", ".join(
    f"&b{level} [{', '.join([f'*b{level - 1}'] * 8)}]" for level in range(1, 10)
)
_VALUES = (
    *("2026-13-45", "2026-11-22", "2026-11-22T10:00:00+99:99", "12:30:45", "190:20:30", "0x1F", "0o17"),
    *("0777", "089", "1_000", "_", "1e3", "1e400", "-1e400", "4.0", ".5", "1.", ".inf", "-.inf", ".nan", "~"),
    *("yes", "Off", "=", "<<", "9" * 5_000, "-" + "9" * 400, "9" * 5_000 + ".0", "'it''s'", '"\\x1b[31m"'),
    *('"\\ud83e\\udd80"', '"\\ud83e"', "!!int x", '!!int ""', "!!int [1]", "!!float x", "!!bool x"),
    *("!!null x", "!!timestamp x", "!!binary aGk=", "!!str 4", "!!binary é", "!!set {a, b}", "!!omap [a: 1]"),
    *("!!pairs [a: 1]", "!!seq x", "!!map x", "!!merge x", "!!value x", "!mine x"),
    *("!<tag:yaml.org,2002:int> 4", "!!python/name:os.system", "!!python/object/apply:os.system [x]", "! x"),
    *("&a [*a]", "&a {a: *a}", "*missing", "&c x", "&c", "*", "&", f"{_BOMB}]", "{a: 1, a: 2}"),
    *('{a: 1, "a": 2}', "{1: a, 1.0: b}", "{~: a}", "{yes: a, true: b}", "{2026-11-22: a}", "{.nan: a}"),
    *("{? [a] : b}", "{? {a: b} : c}", "{<<: 5}", "{<<: [{a: 1}, 5]}", "{<<: {a: 1}, a: 2}"),
    *("{<<: &m {<<: *m}}", "{a}", "{" + "k" * 70_000 + ": v}", '{"' + "k" * 2_000 + '": v}'),
    *("{? " + "k" * 70_000 + " : v}", '{"a\\nb\\0": v}', "[" * 40 + "]" * 40, "[[], [[]], [[[x]]]]"),
    *("{a: {b: {c: {d: [{e: []}]}}}}", "[" * 3_000, "{a: " * 3_000, "|", ">", "- x", "? x", "# x", "@x"),
    *("`x", "%x", "\t", "'", '"', ",", "]", "\u2028", "\ufeff", "\x85", "\0"),
)
"""Values of a flow mapping that YAML has and JSON does not, right and wrong ones."""
_BETWEEN = (
    *("\n---\n", "\n---\n---\n", "\n...\n---\n", "\n--- # next\n", "\n---\n~\n---\n"),
    *("\n...\n%YAML 1.1\n---\n", "\n...\n%YAML 9.9\n---\n", "\n...\n%TAG ! tag:x,2026:\n---\n"),
    *("\n--- !!map\n", "\n--- &d\n", "\n---\n*d\n---\n", "\n---", "---\n", "\n--\n", "\n"),
    *("\n---\n- x\n---\n", "\n---\nx\n---\n", "\n--- |\n x\n---\n", "\n...\n...\n---\n"),
)
"""What separates documents, and what does not."""


def _list_examples() -> tuple[bytes, ...]:
    """Return the workloads of the examples without what no reader reads, so that YAML is fast."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("**/*.yaml")))
    bodies = (body for text in texts for body in yaml.safe_load_all(text) if body and "kind" in body)
    others = ("Service", "ConfigMap", "ServiceAccount")
    return tuple(json.dumps(_thin(body)).encode() for body in bodies if body["kind"] not in others)


def _thin(node: Any) -> Any:
    unread = (
        *("command", "args", "env", "ports", "image"),
        *("volumeMounts", "volumes", "readinessProbe", "headGroupSpec"),
    )
    if isinstance(node, dict):
        return {key: _thin(value) for key, value in node.items() if key not in unread}
    return [_thin(each) for each in node] if isinstance(node, list) else node


_EXAMPLES = _list_examples()
_STEADY = (
    b"\n---\n"
    + json.dumps(
        json.loads(min(_EXAMPLES, key=len)) | {"metadata": {"name": "steady", "namespace": "default"}}
    ).encode()
)
"""A second document that nobody spoils: it must be planned too, if the file can be read."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """The text of one file."""

    text: bytes
    steady: bool = False
    """The text ends with the steady document."""


def _build(recipe: Recipe) -> ManifestFile:
    way = recipe.number(4)
    example = recipe.choose(_EXAMPLES)
    if way == 0:
        text = _spoil_as_text(recipe, spoil(recipe, example))
    elif way == 1:
        text = write(_put_in_lists(recipe, spoil_level(recipe, json.loads(example))))
    else:
        text = _write_yaml(recipe, json.loads(example))
    for _ in range(recipe.choose((0, 0, 0, 1))):
        text += recipe.choose(_BETWEEN).encode() + write(spoil_level(recipe, json.loads(recipe.choose(_EXAMPLES))))
    if text.count(b",") > _VALUES_MAX:
        return ManifestFile(text[:_TEXT_BYTES_MAX])
    steady = recipe.number(2) == 1
    return ManifestFile(text + _STEADY if steady else text, steady)


def _spoil_as_text(recipe: Recipe, body: Any) -> bytes:
    text = write(body)
    if recipe.number(4) == 1 and b"@" not in text:
        text = yaml.safe_dump(body, allow_unicode=bool(recipe.number(2))).encode("utf-8", "surrogatepass")
    if recipe.number(4) == 1:
        text = spoil_text(recipe, text)
    if recipe.number(4) == 1:
        piece = recipe.choose((*_VALUES, *_BETWEEN, odd_text(recipe)[:500]))
        place = recipe.number(len(text) + 1)
        text = text[:place] + piece.encode("utf-8", "surrogatepass") + text[place:]
    return text


def _put_in_lists(recipe: Recipe, body: Any) -> Any:
    """Return an object, mostly as it is, else in a List of Lists, beside odd items."""
    for _ in range(recipe.choose((0, 0, 1, 2, 30))):
        items = [odd_value(recipe), body] if recipe.number(4) == 1 else [body]
        body = {"kind": recipe.choose(("List", "List", "List", "JobList")), "apiVersion": "v1", "items": items}
    return body


def _write_yaml(recipe: Recipe, body: Any) -> bytes:
    """Return the text of an object with tags, anchors, aliases and the like in some places."""
    pieces: list[str] = []
    for number in range(recipe.number(4)):
        places = list(list_places(body))
        holder, key = recipe.choose(places)
        if recipe.number(3) == 1:  # an anchor here, its alias in another place
            other, index = recipe.choose(places)
            pieces += [f"&n{number} {json.dumps(holder[key])}", f"*n{number} "]
            holder[key] = f"{_PLACE}{len(pieces) - 2}:"
            other[index] = f"{_PLACE}{len(pieces) - 1}:"
        else:
            pieces.append(recipe.choose(_VALUES))
            holder[key] = f"{_PLACE}{len(pieces) - 1}:"
    text = json.dumps(body)
    for number in reversed(range(len(pieces))):  # a later anchor may hold an earlier piece
        text = text.replace(f'"{_PLACE}{number}:"', pieces[number])
    return text.encode("utf-8", "surrogatepass")


def _check(manifest: ManifestFile) -> None:
    try:
        text = manifest.text.decode()
    except UnicodeDecodeError:
        return  # `read_manifests` says so before it parses: tests/cli
    try:
        with mock.patch("sys.stdin", io.StringIO(text)):
            found = read_manifests(["-"])
        settings = read_plan_settings({}, cluster="", zone="")
    except (BadInput, Misconfigured) as error:
        _check_message(str(error))
        return
    for problem in found.problems:
        _check_message(str(problem))
    planned = plan(found.workloads, next(iter(settings.clusters)), settings)
    json.dumps([each.as_data() for each in planned])
    shown = io.StringIO()
    print_plan(Console(file=shown, width=200), planned, found.others)
    if not summarize(planned):
        raise Lost("a plan without a summary")
    if not shown.getvalue().replace("\n", "").isprintable():
        raise Lost(f"control characters reach the terminal: {shown.getvalue()!r}")
    if manifest.steady and "steady" not in {each.workload for each in planned}:
        raise Lost("the second document has no line in the plan")


def _check_message(message: str) -> None:
    """Raise unless a message names the file, says what is valid, and is one short line."""
    if not message.startswith(("standard input", "-: ")):
        raise Lost(f"a message without its file: {message}")
    if "is not YAML: " not in message and "; valid: " not in message:
        raise Lost(f"a message that does not say what is valid: {message}")
    if len(message) > _MESSAGE_CHARACTERS_MAX or not message.isprintable():
        raise Lost(f"a message that is no line for a person: {message[:_MESSAGE_CHARACTERS_MAX]!r}")


def _show(manifest: ManifestFile) -> str:
    return repr(manifest.text)


MANIFEST_FILES = Border(name="manifests", share=0.01, build=_build, check=_check, show=_show)
