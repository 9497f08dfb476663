"""The files of the corpus are read at their commit, from either place."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.corpus import corpus_files
from tests.corpus.corpus_files import VARIABLE, find_corpus, read_file
from tests.corpus.corpus_rows import Row

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")


def a_row(commit: str) -> Row:
    return Row(repository="a/b", commit=commit, path="of/x.yaml", gets={"Job/x": "not planned"})


def git(clone: Path, *arguments: str) -> str:
    command = ["git", *IDENTITY, *arguments]
    return subprocess.run(command, cwd=clone, check=True, capture_output=True, text=True).stdout.strip()


def commit(clone: Path, text: str) -> str:
    """Commit the file with this text; gives the commit."""
    (clone / "of").mkdir(exist_ok=True)
    (clone / "of/x.yaml").write_text(text)
    git(clone, "add", ".")
    git(clone, "commit", "--quiet", "--message=x")
    return git(clone, "rev-parse", "HEAD")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "a+b"
    folder.mkdir()
    git(folder, "init", "--quiet")
    return folder


def test_a_clone_gives_the_file_of_the_commit_and_not_the_newest(clone: Path) -> None:
    first, _ = commit(clone, "first"), commit(clone, "second")

    assert read_file(a_row(first), str(clone.parent)) == b"first"


def test_a_bare_clone_will_do(clone: Path, tmp_path: Path) -> None:
    first = commit(clone, "first")
    git(clone, "clone", "--quiet", "--bare", str(clone), str(tmp_path / "bare/a+b"))

    assert read_file(a_row(first), str(tmp_path / "bare")) == b"first"


def test_a_clone_without_the_commit_is_named(clone: Path) -> None:
    commit(clone, "first")

    with pytest.raises(LookupError, match=r"has no clone of a/b with 0{40}; valid: OWNER\+NAME"):
        read_file(a_row("0" * 40), str(clone.parent))


def test_the_corpus_is_there_if_each_clone_has_its_commit(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [a_row(commit(clone, "first"))]
    monkeypatch.setattr(corpus_files, "read_rows", lambda: rows)
    monkeypatch.setenv(VARIABLE, str(clone.parent))
    there = find_corpus()
    rows.append(Row(repository="c/d", commit=rows[0].commit, path="x.yaml", gets={}))

    assert (there, find_corpus()) == (True, False)


def test_what_is_fetched_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row, remote = a_row("1" * 40), tmp_path / "remote"
    file = remote / "a/b" / row.commit / row.path
    file.parent.mkdir(parents=True)
    file.write_text("fetched")
    monkeypatch.setattr(corpus_files, "_HOST", remote.as_uri())
    monkeypatch.setattr(corpus_files, "read_rows", lambda: (row,))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    reachable = find_corpus()
    fetched = read_file(row, "")
    file.unlink()

    assert (reachable, fetched) == (True, b"fetched")
    assert read_file(row, "") == b"fetched"
    assert find_corpus()


def test_no_corpus_is_found_where_nothing_is_reachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_files, "_HOST", (tmp_path / "nowhere").as_uri())
    monkeypatch.setattr(corpus_files, "read_rows", lambda: (a_row("1" * 40),))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)

    assert not find_corpus()
