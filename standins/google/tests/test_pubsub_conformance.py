"""Every scenario against the broker, which must do what is documented, and against Google's
emulator.

Where the emulator is known to differ, it must differ in exactly the stated way.
"""

from collections.abc import Iterator

import pytest

from standins.google.tests.emulator_process import DIFFERENCES, running_emulator
from standins.google.tests.pubsub_scenarios import SCENARIOS
from standins.google.tests.pubsub_world import World
from standins.kit.processes import running_stand_in


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_stand_in(tmp_path_factory.mktemp("broker"), "standins.google", "--pubsub") as stand_in:
        world = World(stand_in.addresses)
        yield world
        world.close()


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_emulator(tmp_path_factory.mktemp("emulator")) as addresses:
        world = World(addresses)
        yield world
        world.close()


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_broker_does_what_is_documented(name: str, broker: World) -> None:
    assert SCENARIOS[name].observe(broker) == SCENARIOS[name].documented


@pytest.mark.tool
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_emulator_does_what_is_documented_or_differs_as_stated(name: str, emulator: World) -> None:
    difference = DIFFERENCES.get(name)
    expected = difference.observed if difference else SCENARIOS[name].documented
    assert SCENARIOS[name].observe(emulator) == expected


def test_every_stated_difference_is_one_and_belongs_to_a_scenario() -> None:
    assert set(DIFFERENCES) <= set(SCENARIOS)
    for name, difference in DIFFERENCES.items():
        assert difference.observed != SCENARIOS[name].documented, name
        assert difference.sentence.endswith("."), name
