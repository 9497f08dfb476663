"""The tier `image`: needs a container engine, and which has built the image once."""

from collections.abc import Iterator

import pytest

from tests.image.image_engine import Engine, find_engine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """An engine that has built the image."""
    with find_engine() as engine:
        engine.build()
        yield engine
