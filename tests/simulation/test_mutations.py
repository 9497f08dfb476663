"""Each safety of the product that is taken away shows in a story, or in a test that is named."""

from collections.abc import Generator

import pytest

from tests.simulation.mutations import MUTATIONS, QUIET, Mutation, find_catch
from tests.simulation.sim_functions import prepared

SEEDS = range(500)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "-"))
def test_a_missing_safety_is_caught(mutation: Mutation) -> None:
    with prepared():
        caught = find_catch(mutation, SEEDS)

    assert caught is not None, f"{len(SEEDS)} stories do not show that the product is broken: {mutation.name}"
    assert not caught[1].startswith("no exception"), f"the mutation itself raises: {caught[1]}"


class Broken:
    """Lets pytest run tests while a safety is missing."""

    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        with self._mutation.applied():
            return (yield)


@pytest.mark.parametrize("mutation", QUIET, ids=lambda mutation: mutation.name.replace(" ", "-"))
def test_a_missing_safety_that_no_story_shows_fails_its_test(mutation: Mutation) -> None:
    options = ["-q", "-n0", "-p", "no:cacheprovider", mutation.test]

    answer = pytest.main(options, plugins=[Broken(mutation)])

    assert answer == pytest.ExitCode.TESTS_FAILED, f"{mutation.test} does not show: {mutation.name}"
