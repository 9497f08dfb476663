"""The exporter's Dockerfile and its context, read as text: what is built, without building it."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "exporter/Dockerfile"
DOCKERIGNORE = ROOT / ".dockerignore"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its word, and the rest of its line."""

    word: str
    rest: str

    @property
    def arguments(self) -> list[str]:
        """The arguments of the exec form; empty for the shell form."""
        if not self.rest.startswith("["):
            return []
        return [str(each) for each in json.loads(self.rest)]


def read_stages() -> list[list[Instruction]]:
    """Return the instructions before the first FROM, then those of each stage, its FROM first."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    stages: list[list[Instruction]] = [[]]
    for line in filter(None, (each.strip() for each in lines)):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append([])
        stages[-1].append(Instruction(word, rest.strip()))
    return stages


def read_defaults() -> dict[str, str]:
    """Return the build arguments that choose the bases."""
    return dict(each.rest.split("=", 1) for each in read_stages()[0] if each.word == "ARG")


def only(stage: list[Instruction], word: str) -> Instruction:
    """Return the one instruction of a stage with this word."""
    (found,) = [each for each in stage if each.word == word]
    return found


def read_context() -> list[str]:
    """Return the folders that reach the builder: all else is ignored first."""
    lines = [each for each in DOCKERIGNORE.read_text().splitlines() if each and not each.startswith("#")]
    assert lines[0] == "*"
    return [each.removeprefix("!") for each in lines if each.startswith("!")]
