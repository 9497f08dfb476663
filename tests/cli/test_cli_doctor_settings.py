"""`doctor` warns of settings that are valid and still do harm."""

from typing import Any

import pytest

from cli.diagnosis.doctor import check_settings
from cli.diagnosis.findings import Result
from shared.core.settings import Credentials
from tests.cli.cli_world import a_deployment, with_settings


@pytest.mark.parametrize(
    ("seconds", "credentials", "warned"),
    [
        (119, Credentials.GOOGLE, True),
        (120, Credentials.GOOGLE, False),
        (0, Credentials.GOOGLE, False),
        (10, Credentials.ANONYMOUS, False),
    ],
)
def test_a_part_of_a_gang_that_is_given_up_between_two_sweeps_is_a_warning(
    seconds: int, credentials: Credentials, *, warned: bool
) -> None:
    use: dict[str, Any] = {"capacity_first": True, "release_partial_gang_seconds": seconds}
    deployment = with_settings(a_deployment(), credentials=credentials, **use)

    told = [each for each in check_settings(deployment) if each.check == "partial gangs"]

    assert [(each.result, f"={seconds} is shorter" in each.text) for each in told] == [
        (Result.WARN, True)
    ] * warned
