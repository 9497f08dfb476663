"""Does each command print what it printed, in each situation? The screens are read in review."""

import json
from pathlib import Path

import pytest

from tests.builders import CLUSTER
from tests.cli.scenes import SCENES
from tests.cli.screens import FOLDER, Screen, read_screens, write_screen

SCREENS = [(path, each) for path in sorted(FOLDER.glob("*.txt")) for each in read_screens(path)]
CLUSTERS = {CLUSTER: {"endpoint": "http://127.0.0.1:9", "zone": "us-east5-b"}}


@pytest.mark.parametrize(("path", "screen"), SCREENS, ids=[each.title for _, each in SCREENS])
def test_a_command_prints_its_screen(
    path: Path, screen: Screen, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    environ = {}
    if screen.scene:
        SCENES[screen.scene](request.getfixturevalue("world"))
        environ = {"TPU_PROVISIONER_CLUSTERS": json.dumps(CLUSTERS)}

    output = screen.show(environ, tmp_path)

    if request.config.getoption("--write", default=False):
        write_screen(path, screen, output)
        return
    assert output == screen.output
