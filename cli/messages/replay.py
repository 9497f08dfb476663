"""One run of ``replay``: check what was asked for, do it, print it."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from cli.access.cli_settings import DEAD_LETTERS, find_subscription, find_topic, list_pushed
from cli.access.deployment_choice import open_chosen
from cli.exit_codes import BadInput, ExitCode, end_with, told
from cli.messages.asking import confirm
from cli.messages.dead_letters import (
    GIVEN_UP,
    MOST,
    Choice,
    DeadLetterQueue,
    DeadLetterReport,
    publish_again,
    read_dead_letters,
    rehearse_dead_letters,
)
from cli.messages.seeking import Foreseen, Sought, describe_kept, foresee, seek_to_snapshot, seek_to_time
from cli.moments import format_moment, parse_since
from cli.printing import Format, choose_format, count, open_console, print_columns, print_data, print_line, styled
from cli.rehearsal import rehearse
from shared.core.decisions import Reason, Verdict
from shared.edges.pubsub_topic import PubsubTopic
from terminal.wrong_arguments import suggest

if TYPE_CHECKING:
    from rich.console import Console

    from cli.access.operator_access import Deployment

REASONS = (*(str(reason) for reason in Reason), GIVEN_UP, "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asked for."""

    since: str = ""
    snapshot: str = ""
    dead_letters: bool = False
    reasons: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    most: int | None = None
    """Largest number of dead letters."""
    dry_run: bool = False
    sure: bool = False
    """Nobody is asked."""


def check(request: Request) -> None:
    """Accept a request that says one thing.

    Raises:
        BadInput: it names none or several sources, or a filter that does not belong to its source.
    """
    named = {"--since": request.since, "--snapshot": request.snapshot, "--dead-letters": request.dead_letters}
    given = [name for name, value in named.items() if value]
    if len(given) != 1:
        raise BadInput(
            f"replay: needs one source (got {' and '.join(given) or 'none'}); valid: {' or '.join(named)}"
        )
    bounds = {"--reason": request.reasons, "--max": request.most}
    for name, value in bounds.items():
        if value and not request.dead_letters:
            raise BadInput(f"{name}: works only with --dead-letters (got {given[0]}); valid: no {name}")
    check_reasons(request.reasons)


def check_reasons(reasons: tuple[str, ...]) -> None:
    """Accept what a dead letter can have as its reason.

    Raises:
        BadInput: it names the wrong one.
    """
    for reason in reasons:
        if reason not in REASONS:
            raise BadInput(f"--reason: is not a reason (got {reason[:80]!r}); {suggest(reason, REASONS)}")


def replay_chosen(request: Request, output: Format, *, as_json: bool) -> None:
    """Carry out a request for the chosen deployment, and end with the exit code that it means."""
    with told():
        check(request)
        form = choose_format(output, as_json=as_json)
        code = run(request, open_chosen(), open_console(), form)
    end_with(code)


def run(request: Request, deployment: Deployment, console: Console, form: Format) -> ExitCode:
    """Carry out a request and print what came of it."""
    if request.dead_letters:
        return _run_dead_letters(request, deployment, console, form)
    admin, own = deployment.pubsub, deployment.own
    now = deployment.ports.clock.now()
    moment = parse_since(request.since, now=now) if request.since else 0.0
    if not request.dry_run and not request.sure:
        functions = request.functions or list_pushed(own)
        to = format_moment(moment) if request.since else request.snapshot
        kept = describe_kept(admin, own, functions, moment, now=now) if request.since else ""
        question = f"Deliver the messages of {', '.join(functions)} again from {to}?"
        confirm(f"{question}{kept} Pub/Sub cannot count them.", sure=False)
    if request.since:
        sought = seek_to_time(admin, own, request.functions, moment, dry_run=request.dry_run)
    else:
        sought = seek_to_snapshot(admin, own, request.functions, request.snapshot, dry_run=request.dry_run)
    foreseen = foresee(deployment.ports, request.functions) if request.dry_run else []
    if form.for_programs:
        data: dict[str, Any] = {"subscriptions": [asdict(each) for each in sought], "dry_run": request.dry_run}
        if request.dry_run:
            data["decisions"] = [asdict(each) for each in foreseen]
        print_data(data, form)
    else:
        _print_sought(console, sought, foreseen, dry_run=request.dry_run)
    refused = any(each.decision == Verdict.REFUSE for each in foreseen)
    return ExitCode.FINDINGS if refused or any(each.problem for each in sought) else ExitCode.FINE


def _print_sought(console: Console, sought: list[Sought], foreseen: list[Foreseen], *, dry_run: bool) -> None:
    would = "would be set back to" if dry_run else "is set back to"
    for each in sought:
        text = f"{each.subscription}: {each.problem}" if each.problem else f"{each.subscription} {would} {each.to}"
        print_line(console, styled(text, "bad" if each.problem else ""))
    if not dry_run:
        return
    print_line(console)
    if not foreseen:
        print_line(console, "a replay would change nothing now")
        return
    headings = ["FUNCTION", "SUBJECT", "DECISION", "REASON", "MESSAGE"]
    print_columns(
        console,
        headings,
        [[each.function, each.subject, each.decision, each.reason, each.message] for each in foreseen],
    )


def _run_dead_letters(request: Request, deployment: Deployment, console: Console, form: Format) -> ExitCode:
    most = request.most or MOST
    ends = deployment.own.operations_topic
    choice = Choice(
        reasons=request.reasons,
        functions=request.functions,
        ids=request.ids,
        most=most,
        operations=request.dry_run or bool(ends),
    )
    queue = open_queue(deployment)
    if not request.dry_run and not request.sure:
        find_topic(deployment.own)
        confirm(f"Publish {count_dead_letters(deployment, choice)} again?", sure=False)
    if request.dry_run:
        report = rehearse_dead_letters(queue, rehearse(deployment.ports), choice)
    else:
        topic = PubsubTopic(deployment.open_publisher, find_topic(deployment.own))
        operations = PubsubTopic(deployment.open_publisher, ends) if ends else None
        report = publish_again(queue, topic, choice, operations=operations, progress=_say_progress)
    if form.for_programs:
        print_data(_dead_letter_data(report, request), form)
    else:
        print_dead_letters(console, report, dry_run=request.dry_run)
    refused = any(dead_letter.decision == Verdict.REFUSE for dead_letter in report.dead_letters)
    return ExitCode.FINDINGS if name_left(request.ids, report) or refused else ExitCode.FINE


def name_left(ids: tuple[str, ...], report: DeadLetterReport) -> bool:
    """Say of each ID that was named and not answered why, and return whether there is one.

    No dead letter has it, or its dead letter is there and is not chosen.
    """
    absent = set(ids) - report.seen
    for each in sorted(absent):
        typer.echo(f"no dead letter has the ID {each[:80]!r}; tpu-provisioner letters list shows them", err=True)
    for each, why in sorted(report.obstacles.items()):
        typer.echo(f"dead letter {each} stays, because {why}", err=True)
    return bool(absent or report.obstacles)


def open_queue(deployment: Deployment) -> DeadLetterQueue:
    """Return the dead letters of a deployment that are there now, for a run that takes some."""
    subscription = find_subscription(deployment.own, DEAD_LETTERS)
    return DeadLetterQueue(deployment.pubsub, subscription, now=deployment.ports.clock.now())


def open_queue_to_look(deployment: Deployment) -> DeadLetterQueue:
    """Return all dead letters of a deployment, for a look after which all of them stay."""
    return DeadLetterQueue(deployment.pubsub, find_subscription(deployment.own, DEAD_LETTERS))


def count_dead_letters(deployment: Deployment, choice: Choice) -> str:
    """Return how many dead letters are chosen, in words, by reason."""
    report, _ = read_dead_letters(open_queue(deployment), choice)
    reasons = Counter(each.reason for each in report.dead_letters).most_common()
    told = f" ({', '.join(f'{times} {reason}' for reason, times in reasons)})" if reasons else ""
    return f"{count(len(report.dead_letters), 'dead letter')}{told}"


def _say_progress(published: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{published} published again")
        sys.stderr.flush()


def _dead_letter_data(report: DeadLetterReport, request: Request) -> dict[str, Any]:
    return {
        "letters": [asdict(dead_letter) for dead_letter in report.dead_letters],
        "published": report.published,
        "left": report.kept,
        "newer": report.newer,
        "empty": report.empty,
        "bounded": report.bounded,
        "dry_run": request.dry_run,
    }


def print_dead_letters(console: Console, report: DeadLetterReport, *, dry_run: bool) -> None:
    """Print the dead letters of a run, and what became of them."""
    if sys.stderr.isatty() and report.published:
        sys.stderr.write("\n")
    if report.dead_letters:
        print_dead_letter_rows(console, report, decided=dry_run)
        print_line(console)
    done = f"{len(report.dead_letters)} read, none published" if dry_run else f"{report.published} published again"
    print_line(console, f"{done}, {report.kept} not selected")
    if report.empty:
        text = (
            f"{count(report.empty, 'dead letter')} cannot be published, because Pub/Sub accepts no empty message"
        )
        print_line(console, styled(f"{text}; remove with: tpu-provisioner letters discard", "warn"))
    print_newer(console, report)
    if report.bounded:
        print_line(console, styled("stopped at --max; there can be more", "warn"))


def print_discarded(console: Console, report: DeadLetterReport, form: Format) -> None:
    """Print what became of dead letters that were to be removed."""
    if form.for_programs:
        dead_letters = [asdict(dead_letter) for dead_letter in report.dead_letters]
        counts = {"discarded": report.discarded, "left": report.kept, "newer": report.newer}
        print_data({"letters": dead_letters, **counts, "bounded": report.bounded}, form)
        return
    print_line(console, f"{report.discarded} removed, {report.kept} not selected")
    print_newer(console, report)
    if report.bounded:
        print_line(console, styled(f"stopped at {MOST}; there can be more", "warn"))


def print_newer(console: Console, report: DeadLetterReport) -> None:
    """Print how many dead letters came during a run."""
    if report.newer:
        newer = f"{count(report.newer, 'dead letter')} came after the run began, by this computer's clock"
        print_line(console, styled(f"{newer}; list with: tpu-provisioner letters list", "warn"))


def print_dead_letter_list(console: Console, report: DeadLetterReport) -> None:
    """Print dead letters that all stay."""
    if report.dead_letters:
        print_dead_letter_rows(console, report, decided=False)
        print_line(console)
    print_line(
        console, f"{count(len(report.dead_letters), 'dead letter')}{', and more' if report.bounded else ''}"
    )


def print_dead_letter_rows(console: Console, report: DeadLetterReport, *, decided: bool) -> None:
    """Print a row for each dead letter; with what would be decided about it now."""
    headings = ["ID", "PUBLISHED", "FUNCTION", "REASON", "SUBJECT"]
    rows = [
        [each.message_id, each.publish_time, each.function or "-", each.reason, each.subject or "-"]
        for each in report.dead_letters
    ]
    if decided:
        headings += ["DECISION NOW", "BECAUSE", "MESSAGE"]
        rows = [
            [*row, each.decision, each.decided_because, each.message]
            for row, each in zip(rows, report.dead_letters, strict=True)
        ]
    print_columns(console, headings, rows)
