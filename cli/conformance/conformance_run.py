"""One run of conformance: its plan, the agreement of a person, the questions and the exit code."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from cli.access.cli_settings import ZONE
from cli.conformance import deployment_questions, pool_questions, tpu_questions
from cli.conformance.asking_google import Budget, ask_all, list_strangers
from cli.conformance.assumption_list import read_assumptions
from cli.conformance.probe_pools import LABEL, MACHINE, Lab, OutOfTime
from cli.conformance.questions import Question, Verdict
from cli.conformance.report import load_report, save_report
from cli.conformance.tpu_questions import count_hosts, find_dollars
from cli.exit_codes import BadInput, ExitCode
from cli.messages.asking import confirm

if TYPE_CHECKING:
    from pathlib import Path

    from cli.access.operator_access import Deployment
    from cli.conformance.report import Report

_TPU_FORM = "MACHINE:TOPOLOGY like ct6e-standard-4t:4x4"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the options say."""

    path: Path
    minutes: float
    dollars: float
    tpu: str
    zone: str
    only: tuple[str, ...]
    clean: bool
    sure: bool


def run(deployment: Deployment, options: RunOptions) -> ExitCode:
    """Ask what a person wants to know, and return the exit code.

    Raises:
        BadInput: an option, or the report, is wrong.
        ProvisionerError: Google cannot be asked.
    """
    cluster = next(iter(deployment.ports.clusters))
    questions, facts = choose_questions(options.only), read_assumptions()
    _check_tpu(options)
    report = load_report(options.path, cluster)
    lab = Lab(
        deployment=deployment,
        cluster=cluster,
        report=report,
        now=time.time,
        sleep=time.sleep,
        save=lambda: save_report(options.path, report, questions, facts),
        tell=lambda text: typer.echo(text, err=True),
        tpu=options.tpu,
        zone=options.zone,
    )
    try:
        return _ask(lab, options, questions)
    except KeyboardInterrupt:
        if report.cleaned < len(report.made):
            lab.clean()
        typer.echo("ended by Ctrl-C; the pools of the run are deleted. The next run continues it.", err=True)
        return ExitCode.FINDINGS
    except OutOfTime as error:
        typer.echo(f"error: pools of run {report.run} are left: {error}; run it again with --clean", err=True)
        return ExitCode.UNREACHABLE


def _ask(lab: Lab, options: RunOptions, questions: list[Question]) -> ExitCode:

    if lab.describe().get("autopilot", {}).get("enabled"):
        what = "is an Autopilot cluster, in which only GKE creates node pools"
        raise BadInput(f"--cluster: {what} (got {lab.cluster!r}); valid: a Standard cluster")
    price = find_dollars(options.tpu, options.zone) if options.tpu else 0.0
    asked = [] if options.clean else [each for each in questions if options.tpu or not each.needs_tpu]
    for line in _plan(lab.report, asked, price, options):
        typer.echo(line, err=True)
    for each in list_strangers(lab):
        typer.echo(f"left alone: {each}: continue that run with its report, or delete the pool by hand", err=True)
    confirm(f"Go on in {lab.cluster}?", sure=options.sure)
    lab.save()
    if options.clean:
        lab.clean()
        return ExitCode.FINE
    budget = Budget(minutes=options.minutes, dollars=options.dollars)
    ask_all(lab, questions, budget, dollars=price)
    return _conclude(lab.report, options.path)


def list_questions() -> tuple[Question, ...]:
    """Return all questions, in the order in which they are asked: the free ones first."""
    modules = (pool_questions, deployment_questions, tpu_questions)
    return tuple(each for module in modules for each in vars(module).values() if isinstance(each, Question))


def choose_questions(only: tuple[str, ...]) -> list[Question]:
    """Return the questions that are named; all if none is.

    Raises:
        BadInput: a name is unknown.
    """
    known = {each.name: each for each in list_questions()}
    for name in only:
        if name not in known:
            raise BadInput(f"--only: is no question (got {name!r}); valid: {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(only or tuple(known))]


def _check_tpu(options: RunOptions) -> None:

    tpu, zone = options.tpu, options.zone
    if tpu and not count_hosts(tpu):
        raise BadInput(f"--tpu: is not a slice (got {tpu!r}); valid: {_TPU_FORM}")
    if (tpu or zone) and not ZONE.accepts(zone):
        raise BadInput(f"--zone: is not valid (got {zone!r}); valid: {ZONE.text}")


def _plan(report: Report, asked: list[Question], price: float | None, options: RunOptions) -> list[str]:
    """Return the plan for people: what is done, how long it takes, what it costs, what is left."""
    lines = [f"Run {report.run} in {report.cluster}, report {options.path}"]
    lines += [f"  {each.name}: {each.does}" for each in asked]
    cost = (
        "nothing"
        if not options.tpu
        else "an unknown amount"
        if price is None
        else f"up to ${price:.2f}, by list price"
    )
    return [
        *lines,
        f"It creates node pools of {MACHINE} without nodes, each with the label {LABEL}={report.run}.",
        f"It takes {sum(each.minutes for each in asked):g} minutes at most, and costs {cost}.",
        "It leaves nothing in Google Cloud but log entries.",
    ]


def _conclude(report: Report, path: Path) -> ExitCode:
    """Print the sum and return the exit code that it means."""
    counts = Counter(each.verdict for each in report.answers.values())
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    typer.echo(f"{summary}: {path}, and {path.with_suffix('.md')} for people")
    return ExitCode.FINDINGS if counts[Verdict.DIFFERS] or counts[Verdict.NO_ANSWER] else ExitCode.FINE
