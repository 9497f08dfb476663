"""A real control plane that cannot run: demo and stack say why in its words, and leave nothing."""

from pathlib import Path

import pytest

from demo.tests.local_commands import TEST_SECONDS_MAX, list_processes, run
from standins.controlplane.cache import Build, default_cache

COMMANDS = [("demo.loop", ()), ("demo.stack", ("up",))]
WORDS = "cannot read its own mind"
BROKEN = f"#!/bin/sh\nfor n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do echo line $n; done\necho {WORDS}\nexit 7\n"
"""More lines than an obituary shows: the name of the process must not be lost over them."""


def options(folder: Path, arguments: tuple[str, ...]) -> tuple[str, ...]:
    return (*arguments, *((f"--home={folder / 'home'}",) if arguments else ()), "--cluster=real")


def cache_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty cache folder the one that every command started from here uses."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    default_cache().mkdir(parents=True)
    return default_cache()


@pytest.mark.parametrize(("module", "arguments"), COMMANDS)
def test_without_the_programs_the_command_that_builds_them_is_named(
    module: str, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_in(tmp_path, monkeypatch)
    answer = run(module, tmp_path, *options(tmp_path, arguments))

    assert answer.returncode == 2
    assert "is not built; build it, once, with: python -m standins.controlplane build" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache"]


@pytest.mark.cluster
@pytest.mark.timeout(TEST_SECONDS_MAX)
@pytest.mark.parametrize(("module", "arguments"), COMMANDS)
def test_a_part_that_dies_at_the_start_is_named_with_its_last_lines(
    module: str, arguments: tuple[str, ...], build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_with_a_broken(build, "etcd", cache_in(tmp_path, monkeypatch))
    answer = run(module, tmp_path, *options(tmp_path, arguments))

    assert answer.returncode == 1
    assert "the process 'cluster' ended with code 1" in answer.stderr
    assert "the process 'etcd' ended with code 7; its last lines were:" in answer.stderr
    assert WORDS in answer.stderr
    assert "Traceback" not in answer.stderr
    assert list_processes(tmp_path) == []


def copy_with_a_broken(build: Build, program: str, cache: Path) -> Path:
    """Copy a build into a cache; one program, of the right size, only complains and ends."""
    copy = cache / build.folder.name
    for path in build.folder.rglob("*"):
        if path.is_file():
            link = copy / path.relative_to(build.folder)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    broken = copy / "bin" / program
    broken.unlink()
    broken.write_text(BROKEN)
    broken.chmod(0o755)
    with broken.open("r+b") as file:
        file.truncate(build.binary(program).stat().st_size)
    return copy
