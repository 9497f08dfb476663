"""Does each command print what it printed, in each situation? The screens are read in review.

A screen is a command, what it reads, and all that it prints, kept in a file. `pytest
tests/cli/test_cli_screens.py --write` writes the outputs anew: read the difference.
"""

import json
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from shared.settings import PREFIX
from tests.builders import CLUSTER
from tests.cli.cli_world import NOWHERE, put_in_place, run, write
from tests.cli.manifests import EXAMPLES, expand
from tests.cli.scenes import stage

FOLDER = Path(__file__).parent / "screens"


@dataclass(frozen=True)
class Screen:
    """One command: its title with the scene in brackets, the documents of FILE, what it prints.

    A title may be the command itself, after a dollar sign.
    """

    title: str
    line: str
    documents: tuple[str, ...]
    output: str

    @property
    def scene(self) -> str:
        """The name of the scene before which it runs."""
        return self.title.rpartition(" [")[2].rstrip("]") if self.title.endswith("]") else ""

    def show(self, environ: dict[str, str], folder: Path) -> str:
        """Run the command; return its exit code and output, without real paths."""
        file = write(folder / "w.yaml", "\n---\n".join(expand(each) for each in self.documents))
        words = shlex.split(self.line.replace("FILE", file).replace("examples/", f"{EXAMPLES}/"))
        variables = dict(word.split("=", 1) for word in words if word.startswith(PREFIX))
        arguments = [word for word in words if not word.startswith(PREFIX)]
        result = run(*arguments, environ=environ | variables)
        shown = result.output.replace(file, "FILE").replace(str(EXAMPLES), "examples")
        lines = [line.rstrip() for line in shown.splitlines()]
        return "\n".join([f"=> {result.exit_code}", *lines, ""])

    def format(self, output: str) -> str:
        """Return the screen with this output as its file has it."""
        line = [] if self.title.startswith("$ ") else [f"$ {self.line}"]
        return "\n".join([f"## {self.title}", *line, *(f"--- {each}" for each in self.documents), output])


def read_screens(path: Path) -> Iterator[Screen]:
    """Yield the screens of a file."""
    for text in path.read_text(encoding="utf-8").split("## ")[1:]:
        asked, _, output = text.partition("\n=> ")
        head, *documents = asked.rstrip("\n").split("\n--- ")
        title, _, line = head.partition("\n$ ")
        line = line or title.removeprefix("$ ").partition(" [")[0]
        yield Screen(title, line, tuple(documents), f"=> {output.rstrip()}\n" if output else "")


def write_screen(path: Path, screen: Screen, output: str) -> None:
    """Put an output in the place of the one that the file has."""
    screens = [each.format(output if each.title == screen.title else each.output) for each in read_screens(path)]
    path.write_text("\n".join(screens), encoding="utf-8")


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
