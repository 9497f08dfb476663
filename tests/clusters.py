"""The two clusters that tests run on, and how fast time passes on them."""

import pytest

from demo.settings import ClusterKind

SPEEDS = {ClusterKind.EMBEDDED: 150.0, ClusterKind.REAL: 60.0}
"""Virtual seconds per real second of a stack. A real control plane takes real seconds for its
part."""
SPEED = SPEEDS[ClusterKind.REAL]  # of the tests that run on a real control plane only
_REAL = pytest.param(ClusterKind.REAL, marks=pytest.mark.cluster)
KINDS = [ClusterKind.EMBEDDED, _REAL]
