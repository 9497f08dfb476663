"""Inputs that no well-behaved neighbour sends, wherever the product reads the words of others.

Some hundred at each border, the same in every run. ``INPUTS=1000000 pytest tests/fuzz`` passes as
many. A failure names its input: ``FIRST=… INPUTS=1 pytest -lvv tests/fuzz`` shows it.
"""

import logging
import os
from collections.abc import Callable
from random import Random

import pytest

from tests.fuzz.borders import BORDERS
from tests.log_records import Records

FIRST, INPUTS = int(os.environ.get("FIRST", "0")), int(os.environ.get("INPUTS", "200"))


@pytest.mark.parametrize("border", BORDERS.values(), ids=BORDERS)
def test_every_input_ends_in_a_documented_way(
    border: Callable[[Random, Records], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for number in range(FIRST, FIRST + INPUTS):
        records = Records()
        monkeypatch.setattr(logging.getLogger(), "handlers", [records])
        try:
            border(Random(number), records)
        except BaseException as error:
            error.add_note(f"FIRST={number} INPUTS=1 repeats it")
            raise
