"""The tier `image`: needs a container engine, and which has built the image once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.image.image_engine import Engine, find_engine

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """An engine that has built the image."""
    with find_engine() as engine:
        engine.build()
        yield engine
