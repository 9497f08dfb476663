"""The stand-in autoscaler plays the scenarios, against the fake GKE's model in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from standins.autoscaler.tests.autoscaler_scenarios import GKE_WORDS, SHARED
from standins.autoscaler.tests.model_world import ModelWorld

if TYPE_CHECKING:
    from collections.abc import Callable

    from standins.autoscaler.tests.autoscaler_world import AutoscalerWorld


@pytest.mark.parametrize("scenario", [*SHARED, *GKE_WORDS], ids=lambda each: each.__name__)
def test_the_stand_in_does_what_an_autoscaler_does(scenario: Callable[[AutoscalerWorld], None]) -> None:
    scenario(ModelWorld())
