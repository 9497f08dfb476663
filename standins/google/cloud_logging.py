"""Reading Cloud Logging: ``entries:list`` over the log files of a folder, one entry per line.

A filter is the part of the Logging query language that is understood: comparisons of fields, joined
by AND; in parentheses comparisons may be joined by OR, and so may the values of one with ``=``.
Everything else is refused by name, never ignored.
https://cloud.google.com/logging/docs/view/logging-query-language
"""

import hashlib
import json
import re
from asyncio import to_thread
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from standins.google.errors import ApiError, Code, error_response

_TEXT = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(
    r"\s*(?P<path>[A-Za-z_][A-Za-z0-9_.-]*)\s*"
    rf'(?:(?P<operator>!=|>=|<=|=|:|>|<)\s*(?P<value>{_TEXT}|[^\s()"]+)|=\s*\((?P<values>{_TEXT}(?:\s+OR\s+{_TEXT})*)\))'
)
_OPEN, _OR, _CLOSE = re.compile(r"\s*\("), re.compile(r"\s+OR\s+"), re.compile(r"\s*\)")
_AND = re.compile(r"\s+(AND\s+)?|\s*\n\s*")
SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
VALID = 'comparisons such as jsonPayload.reason="x", joined by AND'


class BadFilter(Exception):
    """The filter cannot be read; the text says where."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One ``path operator value``, or ``path = (value OR value)``."""

    path: str
    operator: str
    value: str
    others: tuple[str, ...] = ()
    """Further values, of which one is enough; with ``=`` only."""

    def holds(self, entry: dict[str, Any]) -> bool:
        """Return whether an entry fits; a field that it does not have fits nothing but ``!=``."""
        found = _find(entry, self.path)
        if found is None:
            return self.operator == "!="
        if (self.operator, self.value) == (":", "*"):
            return True
        if self.operator in ("=", ":", "!="):
            text = _text(found)
            same = text in (self.value, *self.others) if self.operator != ":" else self.value in text
            return same != (self.operator == "!=")
        left, right = _rank(self.path, _text(found)), _rank(self.path, self.value)
        return {">": left > right, ">=": left >= right, "<": left < right, "<=": left <= right}[self.operator]


@dataclass(frozen=True, slots=True)
class Either:
    """``(comparison OR comparison)``."""

    several: tuple[Comparison, ...]

    def holds(self, entry: dict[str, Any]) -> bool:
        """Return whether an entry fits one of them."""
        return any(each.holds(entry) for each in self.several)


def parse_filter(text: str) -> list[Comparison | Either]:
    """Return the comparisons that must all hold; none for an empty filter.

    Raises BadFilter: something in it is not understood here.
    """
    found: list[Comparison | Either] = []
    position = 0
    while text[position:].strip():
        if found:
            position = _pass(_AND, text, position)
        if _OPEN.match(text, position) is None:
            comparison, position = _read(text, position)
            found.append(comparison)
            continue
        several, joint = list[Comparison](), _OPEN
        while joint.match(text, position):
            comparison, position = _read(text, _pass(joint, text, position))
            several.append(comparison)
            joint = _OR
        position = _pass(_CLOSE, text, position)
        found.append(Either(tuple(several)))
    return found


def _pass(expected: re.Pattern[str], text: str, position: int) -> int:
    """Return the position behind what is expected."""
    passed = expected.match(text, position)
    if passed is None:
        raise BadFilter(f"filter: not understood at {text[position:].strip()[:40]!r}; valid: {VALID}")
    return passed.end()


def _read(text: str, position: int) -> tuple[Comparison, int]:
    """Return one comparison, and the position behind it."""
    token = _TOKEN.match(text, position)
    if token is None or token["path"] in ("OR", "NOT"):
        raise BadFilter(f"filter: not understood at {text[position:].strip()[:40]!r}; valid: {VALID}")
    values = re.findall(_TEXT, token["values"]) if token["values"] else [token["value"]]
    value, *others = map(_unquote, values)
    comparison = Comparison(token["path"], token["operator"] or "=", value, tuple(others))
    _rank(comparison.path, comparison.value)
    return comparison, token.end()


def _unquote(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


def _find(entry: dict[str, Any], path: str) -> Any:
    found: Any = entry
    for part in path.split("."):
        if not isinstance(found, dict) or part not in found:
            return None
        found = found[part]
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


def _rank(path: str, text: str) -> tuple[float, str]:
    """Return what a value is ordered by.

    Moments by time, severities by weight, everything else as text.
    """
    if path == "timestamp":
        try:
            return datetime.fromisoformat(text).timestamp(), ""
        except ValueError as error:
            raise BadFilter(f"filter: timestamp: not RFC 3339 (got {text!r})") from error
    if path == "severity":
        if text not in SEVERITIES:
            raise BadFilter(f"filter: severity: unknown (got {text!r}); valid: {', '.join(SEVERITIES)}")
        return float(SEVERITIES.index(text)), ""
    return 0.0, text


Json = dict[str, Any]


def read_entries(folder: Path, project: str) -> Iterator[Json]:
    """Yield every line of every ``*.log`` of a folder as a log entry.

    A JSON object becomes ``jsonPayload`` without the fields that Cloud Logging lifts out of it
    (https://cloud.google.com/logging/docs/structured-logging); anything else becomes
    ``textPayload``.
    """
    for path in sorted(folder.glob("*.log")):
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat()
        text = path.read_text(encoding="utf-8", errors="replace")
        # A line that is being written has no end yet.
        for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines()):
            if line.strip():
                yield _read_line(line, number, process=path.stem, project=project, written=written)


def _read_line(line: str, number: int, *, process: str, project: str, written: str) -> Json:
    entry: Json = {
        "logName": f"projects/{project}/logs/run.googleapis.com%2Fstdout",
        "resource": {"type": "cloud_run_revision", "labels": {"project_id": project, "service_name": process}},
        "insertId": hashlib.sha256(f"{process}\n{number}".encode()).hexdigest()[:20],
        "timestamp": written,
        "severity": "DEFAULT",
    }
    try:
        body = json.loads(line)
    except ValueError:
        return entry | {"textPayload": line}
    if not isinstance(body, dict):
        return entry | {"textPayload": line}
    severity = str(body.pop("severity", "DEFAULT"))
    entry["severity"] = severity if severity in SEVERITIES else "DEFAULT"
    entry["timestamp"] = _read_time(body.pop("time", None)) or written
    return entry | {"jsonPayload": body}


def _read_time(text: Any) -> str:
    try:
        datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return ""
    return str(text)


PAGE_SIZE_MAX = 1000
QUESTIONS_MAX = 8
_PAGE_SIZE_DEFAULT = 50
_ORDERS = ("timestamp asc", "timestamp desc")


class Question(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of ``entries:list``."""

    resource_names: list[str]
    filter: str = ""
    order_by: str = "timestamp asc"
    page_size: int = _PAGE_SIZE_DEFAULT
    page_token: str = ""


class LogReader:
    """Answers about the log files of one folder, all of one project."""

    def __init__(self, folder: Path, project: str) -> None:
        self._folder, self._project = folder, project
        self._found: dict[tuple[str, str], list[Json]] = {}
        """The entries of the last questions, for their next pages."""

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [Route("/v2/entries:list", self._list, methods=["POST"])]

    async def _list(self, request: Request) -> Response:
        try:
            question = msgspec.json.decode(await request.body(), type=Question)
            return JSONResponse(await to_thread(self.answer, question))
        except (msgspec.DecodeError, BadFilter) as error:
            return error_response(ApiError(Code.INVALID_ARGUMENT, str(error)))

    def answer(self, question: Question) -> dict[str, Any]:
        """Return one page of the entries that fit.

        Raises BadFilter: a field of the question is wrong.
        """
        if question.order_by not in _ORDERS:
            raise BadFilter(f"orderBy: unknown (got {question.order_by!r}); valid: {', '.join(_ORDERS)}")
        if not 0 < question.page_size <= PAGE_SIZE_MAX:
            raise BadFilter(f"pageSize: out of range (got {question.page_size}); valid: 1 to {PAGE_SIZE_MAX}")
        if question.page_token and not question.page_token.isdecimal():
            raise BadFilter(f"pageToken: not one of ours (got {question.page_token!r}); valid: a nextPageToken")
        comparisons = parse_filter(question.filter)
        if f"projects/{self._project}" not in question.resource_names:
            return {}
        key = (question.filter, question.order_by)
        found = self._found.get(key) if question.page_token else None
        if found is None:
            found = self._find(comparisons, newest_first=question.order_by.endswith("desc"))
            self._found = dict([*self._found.items(), (key, found)][-QUESTIONS_MAX:])
        begin = int(question.page_token or 0)
        end = begin + question.page_size
        more = {"nextPageToken": str(end)} if end < len(found) else {}
        return {"entries": found[begin:end], **more}

    def _find(self, comparisons: Sequence[Comparison | Either], *, newest_first: bool) -> list[Json]:
        """Return the entries that fit, in their order."""
        entries = read_entries(self._folder, self._project)
        found = [each for each in entries if all(comparison.holds(each) for comparison in comparisons)]
        found.sort(key=lambda entry: datetime.fromisoformat(entry["timestamp"]), reverse=newest_first)
        return found
