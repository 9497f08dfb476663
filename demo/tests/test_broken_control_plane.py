"""A real control plane that cannot run: demo and stack say why in its words, and leave nothing."""

from pathlib import Path

import pytest

from demo.tests.local_commands import TEST_SECONDS_MAX, list_processes, run
from standins.controlplane.building import default_cache, find_build
from standins.controlplane.programs import choose_products

COMMANDS = ["run", "up"]
WORDS = "cannot read its own mind"
BROKEN = f"#!/bin/sh\nfor n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do echo line $n; done\necho {WORDS}\nexit 7\n"
"""More lines than an obituary shows: the name of the process must not be lost over them."""


@pytest.mark.parametrize("command", COMMANDS)
def test_without_the_programs_the_command_that_builds_them_is_named(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = [f"--home={tmp_path / 'home'}"] * (command == "up")
    answer = run(tmp_path, command, "--cluster=real", *home)

    assert answer.returncode == 2
    assert "absent; build it, once, with: python -m standins.controlplane build" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cluster
@pytest.mark.timeout(TEST_SECONDS_MAX)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_part_that_dies_at_the_start_is_named_with_its_last_lines(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache"
    copy_with_a_broken("etcd", folder / default_cache().relative_to(default_cache().parents[1]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    home = [f"--home={tmp_path / 'home'}"] * (command == "up")
    answer = run(tmp_path, command, "--cluster=real", *home)

    assert answer.returncode == 1
    assert "the process 'cluster' ended with code 1" in answer.stderr
    assert "the process 'etcd' ended with code 7; its last lines were:" in answer.stderr
    assert WORDS in answer.stderr
    assert "Traceback" not in answer.stderr
    assert list_processes(tmp_path) == []


def copy_with_a_broken(name: str, cache: Path) -> None:
    """Link all builds into a cache but for one program, which only complains and ends."""
    for product in choose_products():
        build = find_build(product)
        copy = cache / build.folder.relative_to(build.folder.parents[1])
        copy.parent.mkdir(parents=True)
        if name not in product.programs:
            copy.symlink_to(build.folder)
            continue
        (copy / "bin").mkdir(parents=True)
        (copy / "bin" / name).write_text(BROKEN)
        (copy / "bin" / name).chmod(0o755)
