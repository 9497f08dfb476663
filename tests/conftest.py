"""What every test gets: the project on the import path, and property tests that are the same on every run."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # `pytest` alone does not put the working folder there, `python -m pytest` does
    sys.path.insert(0, str(ROOT))

# No example database and no random seed: a run that passes here passes everywhere.
settings.register_profile(
    "project", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("project")
