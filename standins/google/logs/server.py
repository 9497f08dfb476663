"""``entries:list`` over the log files of a folder, which are read anew at every question."""

from asyncio import to_thread
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from standins.google.errors import ApiError, Code, error_response
from standins.google.logs.entries import Json, read_entries
from standins.google.logs.filters import BadFilter, Comparison, Either, parse_filter

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
