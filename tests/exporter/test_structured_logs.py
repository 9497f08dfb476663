"""Is every log record one JSON object on one line, in the words of Cloud Logging?"""

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from shared import VERSION
from shared.edges.process import start_logging

pytestmark = pytest.mark.usefixtures("restored_logging")
FACTS = {"event_id": "e", "claim": {"slice": "0"}}


def fail() -> None:
    raise ValueError("two\nlines")


def fail_in_a_thread() -> None:
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()


ROWS: dict[str, tuple[Callable[[], object], dict[str, Any], dict[str, str]]] = {
    "a warning with facts": (
        lambda: logging.getLogger("a").warning("published %s", 3, extra=FACTS),
        FACTS | {"severity": "WARNING", "message": "published 3", "service": "exporter", "version": VERSION},
        {"time": "Z"},
    ),
    "a traceback": (
        lambda: logging.getLogger("a").error("failed", exc_info=ValueError("two\nlines")),
        {"severity": "ERROR", "logger": "a"},
        {"stack_trace": "ValueError: two\nlines"},
    ),
    "an uncaught exception of a thread": (
        fail_in_a_thread,
        {"severity": "CRITICAL", "message": "uncaught error: two\nlines"},
        {"stack_trace": "in fail"},
    ),
    "what JSON cannot say": (
        lambda: logging.getLogger("a").info("x", extra={"odd": object(), "number": float("nan")}),
        {"number": None},
        {"odd": "<object object at "},
    ),
}


@pytest.mark.parametrize(("act", "fields", "parts"), ROWS.values(), ids=ROWS)
def test_a_record_is_one_line(
    act: Callable[[], object], fields: dict[str, Any], parts: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    start_logging("exporter")
    act()

    (line,) = capsys.readouterr().out.splitlines()
    record = json.loads(line)
    assert record | fields == record
    assert ("stack_trace" in record) == ("stack_trace" in parts)
    assert all(text in record[name] for name, text in parts.items())
