"""One running stack for every test of a session that does not break it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local.stack.commands import StackSettings
from local.stack.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterator

SPEED = 60.0


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("stack"), StackSettings(speed=SPEED)) as stack:
        yield stack
