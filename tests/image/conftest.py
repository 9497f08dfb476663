"""The tier `image`: needs a container engine, and which has built the image once."""

import pytest

from tests.image.image_engine import Engine, find_engine


@pytest.fixture(scope="session")
def engine() -> Engine:
    """An engine that has built the image."""
    engine = find_engine()
    engine.build()
    return engine
