"""Is every log record one JSON object on one line, in the words of Cloud Logging?"""

import json
import logging
import threading

import pytest

from shared import VERSION
from shared.edges.process import start_logging

pytestmark = pytest.mark.usefixtures("restored_logging")


def records(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_record_carries_severity_message_time_service_version_and_its_own_facts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    start_logging("exporter")
    facts = {"event_id": "e", "claim": {"slice": "0"}}
    logging.getLogger("a").warning("published %s", 3, extra=facts)
    (record,) = records(capsys)
    time = str(record.pop("time"))
    assert time.endswith("Z")
    assert record == facts | {
        "severity": "WARNING",
        "message": "published 3",
        "service": "exporter",
        "version": VERSION,
        "logger": "a",
    }


def test_a_traceback_stays_inside_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("exporter")
    try:
        int("two\nlines")
    except ValueError:
        logging.getLogger("a").exception("failed")
    (record,) = records(capsys)
    assert record["severity"] == "ERROR"
    assert "ValueError: invalid literal" in str(record["stack_trace"])


def test_an_uncaught_exception_of_a_thread_is_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("exporter")

    def fail() -> None:
        raise ValueError("unseen")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    (record,) = records(capsys)
    assert (record["severity"], record["message"]) == ("CRITICAL", "uncaught error: unseen")


def test_what_json_cannot_say_is_said_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("exporter")
    logging.getLogger("a").info("x", extra={"odd": object(), "number": float("nan")})
    (record,) = records(capsys)
    assert str(record["odd"]).startswith("<object object")
    assert record["number"] is None
