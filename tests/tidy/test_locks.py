"""The locks: what is deployed has the versions and files that the tests ran with."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def read_pins(name: str) -> dict[str, list[str]]:
    """Return the hashes of each pin of a lock, by name and version."""
    text = (ROOT / name).read_text()
    pins = re.findall(r"^(\S+==[^ \\]+)((?:.*\\\n)+.*)", text, re.MULTILINE)
    return {pin: re.findall(r"sha256:\w+", rest) for pin, rest in pins}


@pytest.mark.parametrize("name", ["requirements.txt", "exporter/requirements.txt"])
def test_a_deployed_program_gets_the_files_that_the_development_lock_names(name: str) -> None:
    deployed, development = read_pins(name), read_pins("requirements/development.txt")

    assert len(deployed) > 15
    assert {pin: hashes for pin, hashes in deployed.items() if not {*hashes} <= {*development.get(pin, ())}} == {}
