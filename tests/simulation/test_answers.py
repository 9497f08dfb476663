"""The simulator's GKE answers as a report of `conformance` says, in all scenarios."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from shared.core.errors import AlreadyExists, Busy, Throttled
from tests.simulation.__main__ import main
from tests.simulation.campaigns import run_seeds
from tests.simulation.sim_answers import OWN, TRIES_SECONDS, VARIABLE, Answers, read_answers
from tests.simulation.sim_operations import Operations
from tests.simulation.sim_run import Result, run_scenario
from tests.simulation.sim_scenario import Act, Fault, Scenario
from tests.simulation.sim_scenarios import make_scenario

LIFE = Scenario(
    acts=(Act(5.0, "create", 0, "train", "JobSet", "two", 3), Act(900.0, "complete", 0, "train")),
    sweeps=(60.0, 300.0, 1300.0),
)
HARD: list[dict[str, Any]] = [
    {"switch": "stale_list", "seconds": 10, "created": False},
    {"switch": "max_running_ops", "value": 1},
    {"switch": "audit_entries", "delay": 90},
    {"switch": "get_404_after_create"},
]


def _write(path: Path, *faults: dict[str, Any], **timings: float) -> str:
    path.write_text(json.dumps({"scenario": {"faults": faults, "timings": timings}}))
    return str(path)


def _live(answers: Answers, **changes: Any) -> Result:
    result = run_scenario(dataclasses.replace(LIFE, answers=answers, **changes), tell=True)
    assert result.violations == []
    return result


def _find(result: Result, text: str) -> list[float]:
    """Return when the lines with a text were written, in seconds from the start."""
    return [float(line.split()[0]) for line in result.lines if text in line]


def test_a_report_without_faults_is_what_the_code_assumes(tmp_path: Path) -> None:
    found = read_answers(_write(tmp_path / "report.json"))

    assert (found.create_while_creating, found.create_while_stopping) == (Busy, Busy)
    assert (found.running_max, found.tries_gpu, found.tries_tpu) == (20, TRIES_SECONDS, TRIES_SECONDS)
    assert read_answers("") == OWN


def test_each_switch_that_the_model_has_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    plain = ("cluster_busy", "max_inflight_ops", "dup_create_inflight", "create_while_stopping")
    faults = [*HARD, {"switch": "op_gc", "seconds": 0}, *({"switch": name} for name in plain)]
    path = _write(tmp_path / "report.json", *faults, stockout=60.0, late_failure=1.0)

    assert read_answers(path) == Answers(
        create_while_creating=AlreadyExists,
        create_while_stopping=AlreadyExists,
        hidden_reads=1,
        list_lag=10,
        running_max=1,
        open_max=5,
        operations_kept=0,
        audit_delay=90,
        tries_gpu=60,
        unplayed=("cluster_busy", "late_failure"),
    )


@pytest.mark.usefixtures("_prepared")
def test_operations_wait_for_their_turn() -> None:
    at_once, in_turn = (_live(Answers(running_max=most)) for most in (3, 1))

    bound = [_find(each, "is bound to")[-1] for each in (at_once, in_turn)]
    assert bound[0] < 130
    assert bound[1] > 3 * 60


@pytest.mark.usefixtures("_prepared")
def test_a_create_above_the_open_operations_is_refused_until_one_ends() -> None:
    operations = Operations(Answers(open_max=1))
    operations.begin("a", "one", lambda: None)

    with pytest.raises(Throttled):
        operations.check("a")
    operations.check("b")
    operations.end("a", "one")
    operations.check("a")
    assert _live(Answers(open_max=1)).figures["creates"] == 3


@pytest.mark.usefixtures("_prepared")
def test_audit_entries_come_later() -> None:
    soon, late = (_find(_live(Answers(audit_delay=delay)), "has ended)")[0] for delay in (0.0, 90.0))

    assert late == pytest.approx(soon + 90.0, abs=2.0)


@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize("told", [{"hidden_reads": 1}, {"get_lag": 10, "list_lag": 10}], ids=["404", "lag"])
def test_a_pool_that_is_not_shown_yet_is_made_once(told: dict[str, float]) -> None:
    assert _live(Answers(**told)).figures["creates"] == 3  # type: ignore[arg-type]


@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize("seed", [360, 405])
def test_what_no_list_can_show_yet_is_no_excess(seed: int) -> None:
    """The next sweep comes eight seconds after the one that created the other pool."""
    scenario = dataclasses.replace(make_scenario(seed), answers=Answers(get_lag=10, list_lag=10))

    assert run_scenario(scenario).violations == []


@pytest.mark.usefixtures("_prepared")
def test_a_creation_without_machines_fails_when_the_report_says() -> None:
    dry = (Fault(0.0, "no-stock", seconds=1200.0),)

    result = _live(Answers(tries_tpu=60.0), faults=dry)

    assert result.figures["creations that failed after 35 minutes"] >= 3


def test_the_variable_is_for_whole_campaigns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run_seeds(range(4)).counts

    monkeypatch.setenv(VARIABLE, _write(tmp_path / "report.json", *HARD))

    figures = run_seeds(range(4))
    assert not figures.unknown
    assert figures.counts != plain


def test_the_option_names_what_is_not_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _write(tmp_path / "report.json", *HARD, {"switch": "byte_limit"})
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr(sys, "argv", ["simulation", "3", "--whole", "--answers", path])

    assert main() == 0

    told = capsys.readouterr()
    assert told.err == f"GKE answers as in {path}; not played: byte_limit\n"
    assert "GKE answers as in the report" in told.out


def test_what_is_no_report_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["simulation", "3", "--answers", "absent.json"])

    with pytest.raises(SystemExit, match="2"):
        main()

    assert "absent.json: cannot be read" in capsys.readouterr().err
