"""What the scenarios of all kinds get: the shared stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lives.cloud import Cloud

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.stack.stack import Stack


@pytest.fixture(scope="module")
def cloud(stack: Stack) -> Iterator[Cloud]:
    with Cloud(stack) as cloud:
        yield cloud
