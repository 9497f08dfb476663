"""Does each command print what it printed, in each situation? The screens are read in review."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.builders import CLUSTER
from tests.cli.cli_world import NOWHERE, put_in_place
from tests.cli.scenes import stage
from tests.cli.screens import FOLDER, Screen, read_screens, write_screen

SCREENS = [(path, each) for path in sorted(FOLDER.glob("*.txt")) for each in read_screens(path)]
CLUSTERS = {"TPU_PROVISIONER_CLUSTERS": json.dumps({CLUSTER: {"endpoint": NOWHERE, "zone": "us-east5-b"}})}


@pytest.mark.parametrize(("path", "screen"), SCREENS, ids=[each.title for _, each in SCREENS])
def test_a_command_prints_its_screen(
    path: Path, screen: Screen, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with ExitStack() as on_stage:
        if screen.scene:
            put_in_place(monkeypatch, on_stage.enter_context(stage(screen.scene, tmp_path)))
        output = screen.show(CLUSTERS if screen.scene else {}, tmp_path)

    if request.config.getoption("--write", default=False):
        write_screen(path, screen, output)
        return
    assert output == screen.output
