"""Reading Cloud Logging: ``entries:list`` over the log files of a folder, one entry per line.

A filter is the part of the Logging query language that is understood: comparisons of fields, joined
by AND; in parentheses comparisons may be joined by OR, and so may the values of one with ``=``.
Everything else is refused by name, never ignored.
https://cloud.google.com/logging/docs/view/logging-query-language
"""

import hashlib
import json
import operator
import re
from asyncio import to_thread
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from standins.google.errors import ApiError, Code, error_response

Json = dict[str, Any]
_TEXT = r'"(?:[^"\\]|\\.)*"'
_PATH, _ONE = r"[A-Za-z_][A-Za-z0-9_.-]*", rf'{_TEXT}|[^\s()"]+'
_OPERATOR, _SEVERAL = "!=|>=|<=|=|:|>|<", rf"{_TEXT}(?:\s+OR\s+{_TEXT})*"
_PLAIN = rf"{_PATH}\s*(?:(?:{_OPERATOR})\s*(?:{_ONE})|=\s*\({_SEVERAL}\))"
_CLAUSE = re.compile(rf"(?:{_PLAIN}|\(\s*{_PLAIN}(?:\s+OR\s+{_PLAIN})*\s*\))(?:\s+AND\s+(?=\S)|\s+|$)")
_COMPARISON = re.compile(
    rf"(?P<path>{_PATH})\s*(?:(?P<operator>{_OPERATOR})\s*(?P<value>{_ONE})|=\s*\((?P<values>{_SEVERAL})\))"
)
_ORDERED = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
_QUESTIONS_MAX = 8


class BadFilter(Exception):
    """The filter cannot be read; the text says where."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One ``path operator value``, or ``path = (value OR value)``."""

    path: str
    operator: str
    values: tuple[str, ...]  # one is enough; several with ``=`` only

    def holds(self, entry: Json) -> bool:
        """Return whether an entry fits; a field that it does not have fits nothing but ``!=``."""
        field: Any = entry
        for part in self.path.split("."):
            field = field.get(part) if isinstance(field, dict) else None
        if field is None:
            return self.operator == "!="
        text = field if isinstance(field, str) else json.dumps(field)
        if compare := _ORDERED.get(self.operator):
            return bool(compare(_rank(self.path, text), _rank(self.path, self.values[0])))
        if self.operator == ":":
            return self.values[0] == "*" or self.values[0] in text
        return (text in self.values) == (self.operator == "=")


def parse_filter(text: str) -> list[list[Comparison]]:
    """Return the groups of comparisons of which each needs one that holds; none for no filter.

    Raises BadFilter: something in it is not understood here.
    """
    groups, rest = list[list[Comparison]](), text.strip()
    while rest:
        clause = _CLAUSE.match(rest)
        if clause is None:
            valid = 'comparisons such as jsonPayload.reason="x", joined by AND'
            raise BadFilter(f"filter: not understood at {rest[:40]!r}; valid: {valid}")
        groups.append([_read_comparison(each) for each in _COMPARISON.finditer(clause[0])])
        rest = rest[clause.end() :]
    return groups


def _read_comparison(match: re.Match[str]) -> Comparison:
    texts = re.findall(_TEXT, match["values"]) if match["values"] else [match["value"]]
    values = tuple(str(json.loads(each)) if each.startswith('"') else each for each in texts)
    _rank(match["path"], values[0])
    return Comparison(match["path"], match["operator"] or "=", values)


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


def read_entries(folder: Path, project: str) -> Iterator[Json]:
    """Yield every line of every ``*.log`` of a folder as a log entry.

    A JSON object becomes ``jsonPayload`` without the fields that Cloud Logging lifts out of it
    (https://cloud.google.com/logging/docs/structured-logging); anything else becomes
    ``textPayload``.
    """
    for path in sorted(folder.glob("*.log")):
        labels = {"project_id": project, "service_name": path.stem}
        usual = {
            "logName": f"projects/{project}/logs/run.googleapis.com%2Fstdout",
            "resource": {"type": "cloud_run_revision", "labels": labels},
            "timestamp": datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(),
            "severity": "DEFAULT",
        }
        text = path.read_text(encoding="utf-8", errors="replace")
        # A line that is being written has no end yet.
        for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines()):
            insert_id = hashlib.sha256(f"{path.stem}\n{number}".encode()).hexdigest()[:20]
            if line.strip():
                yield {**usual, "insertId": insert_id, **_read_line(line)}


def _read_line(line: str) -> Json:
    try:
        body = json.loads(line)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return {"textPayload": line}
    lifted = {}
    if (severity := body.pop("severity", "")) in SEVERITIES:
        lifted["severity"] = severity
    try:
        datetime.fromisoformat(moment := body.pop("time", ""))
        lifted["timestamp"] = moment
    except (TypeError, ValueError):
        pass  # the file's time stands for one that cannot be read
    return {**lifted, "jsonPayload": body}


class Question(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of ``entries:list``."""

    resource_names: list[str]
    filter: str = ""
    order_by: Literal["timestamp asc", "timestamp desc"] = "timestamp asc"
    page_size: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50
    page_token: Annotated[str, msgspec.Meta(pattern="^[0-9]*$")] = ""


class LogReader:
    """Answers about the log files of one folder, all of one project."""

    def __init__(self, folder: Path, project: str) -> None:
        self._folder, self._project = folder, project
        self._answers: dict[tuple[str, str], list[Json]] = {}
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

    def answer(self, question: Question) -> Json:
        """Return one page of the entries that fit. Raises BadFilter."""
        groups, key = parse_filter(question.filter), (question.filter, question.order_by)
        if f"projects/{self._project}" not in question.resource_names:
            return {}
        if not question.page_token or key not in self._answers:
            lines = read_entries(self._folder, self._project)
            fitting = [each for each in lines if all(any(it.holds(each) for it in group) for group in groups)]
            newest_first = question.order_by.endswith("desc")
            fitting.sort(key=lambda entry: datetime.fromisoformat(entry["timestamp"]), reverse=newest_first)
            self._answers = dict([*self._answers.items(), (key, fitting)][-_QUESTIONS_MAX:])
        begin, entries = int(question.page_token or 0), self._answers[key]
        end = begin + question.page_size
        more = {"nextPageToken": str(end)} if end < len(entries) else {}
        return {"entries": entries[begin:end], **more}
