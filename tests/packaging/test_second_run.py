"""The file of a failed test runs a second time, alone, and the run says so."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tests import run
from tests.run import _SECOND_RUNS_MAX, ROOT


@pytest.fixture
def run_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that runs tests as a project of their own, and returns the exit code."""
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setitem(run._PROCESSES, run._FIRST, 1)  # its failures come from another process too
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run_them(body: str, files: int = 1) -> int:
        for number in range(files):
            (tmp_path / f"test_some_{number}.py").write_text(dedent(body), encoding="utf-8")
        return run._pytest("not cluster", [])

    return run_them


def test_a_test_that_fails_beside_others_only_is_told_as_unstable(
    run_tests: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    body = f"""
        from pathlib import Path

        def test_the_first_time_fails():
            seen = Path({str(tmp_path / "seen")!r})
            again, _ = seen.exists(), seen.touch()
            assert again

        def test_another():
            pass
    """

    code = run_tests(body)

    assert code == 0
    told = capfd.readouterr().out
    assert "FAILED BESIDE OTHERS: " in told
    assert "UNSTABLE: " in told
    assert "test_the_first_time_fails: passed alone" in told


@pytest.mark.parametrize(
    ("failing", "files", "again"),
    [(1, 1, True), (_SECOND_RUNS_MAX + 1, 1, True), (1, _SECOND_RUNS_MAX + 1, False)],
    ids=["fails twice", "a file fails twice", "too many files fail"],
)
def test_a_failure_stays_a_failure(
    run_tests: Callable[..., int], capfd: pytest.CaptureFixture[str], *, failing: int, files: int, again: bool
) -> None:
    body = f"""
        import pytest

        @pytest.mark.parametrize("number", range({failing}))
        def test_fails(number):
            assert number < 0
    """

    code = run_tests(body, files)

    assert code == 1
    told = capfd.readouterr().out
    assert ("FAILED BESIDE OTHERS: " in told) == again
    assert "UNSTABLE: " not in told
