"""Fixtures of the tests of the build's scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.infra.build_scripts import Bench

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A pretended cloud with nothing in it."""
    return Bench.make(tmp_path)
