"""A log is read while it is written: half a line is no record yet, foreign text only passes if told so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.log_records import read_records

if TYPE_CHECKING:
    from pathlib import Path


def test_half_a_line_is_no_record_yet(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"message": "one"}\n{"mess')

    assert read_records(log) == [{"message": "one"}]


def test_foreign_text_is_passed_over_only_if_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('I1122 begins\n{"message": "one"}\n')

    assert read_records(log, among_text=True) == [{"message": "one"}]
    with pytest.raises(json.JSONDecodeError):
        read_records(log)
