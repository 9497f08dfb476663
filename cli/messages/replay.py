"""One run of ``replay``: check what was asked for, do it, print it."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cli.access.cli_settings import DEAD_LETTERS, find_subscription, find_topic, list_pushed
from cli.access.deployment_choice import open_chosen
from cli.exit_codes import BadInput, ExitCode, end_with, told
from cli.messages.asking import confirm
from cli.messages.dead_letters import (
    MOST,
    Choice,
    DeadLetterQueue,
    DeadLetterReport,
    add_reasons,
    publish_again,
    read_dead_letters,
)
from cli.messages.seeking import describe_kept, seek_to_time
from cli.moments import format_moment, parse_since
from cli.printing import Format, choose_format, count, open_console, print_columns, print_data, print_line, styled
from shared.edges.pubsub import PubsubTopic

if TYPE_CHECKING:
    from rich.console import Console

    from cli.access.operator_access import Deployment
    from cli.messages.dead_letters import DeadLetter


_HEADINGS = ["ID", "PUBLISHED", "FUNCTION", "SUBJECT"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What the command line asked for."""

    since: str = ""
    dead_letters: bool = False
    functions: tuple[str, ...] = ()
    most: int | None = None
    """Largest number of dead letters."""
    sure: bool = False
    """Nobody is asked."""


def check(request: Replay) -> None:
    """Accept a request that says one thing."""
    if bool(request.since) == request.dead_letters:
        got = "both" if request.since else "none"
        raise BadInput(f"replay: needs one source (got {got}); valid: --since or --dead-letters")
    if request.most and not request.dead_letters:
        raise BadInput("--max: works only with --dead-letters (got --since); valid: no --max")


def replay_chosen(request: Replay, output: Format, *, as_json: bool) -> None:
    """Carry out a request for the chosen deployment, and end with the exit code that it means."""
    with told():
        check(request)
        form = choose_format(output, as_json=as_json)
        code = run(request, open_chosen(), open_console(), form)
    end_with(code)


def run(request: Replay, deployment: Deployment, console: Console, form: Format) -> ExitCode:
    """Carry out a request and print what came of it."""
    if request.dead_letters:
        return _run_dead_letters(request, deployment, console, form)
    admin, own = deployment.pubsub, deployment.own
    now = deployment.ports.clock.now()
    moment = parse_since(request.since, now=now)
    if not request.sure:
        names = list_pushed(own, request.functions)
        kept = describe_kept(admin, own, names, moment, now=now)
        question = f"Deliver the messages of {', '.join(names)} again from {format_moment(moment)}?"
        confirm(f"{question}{kept} Pub/Sub cannot count them.", sure=False)
    sought = seek_to_time(admin, own, list_pushed(own, request.functions), moment)
    if form.for_programs:
        print_data({"subscriptions": [asdict(each) for each in sought]}, form)
    else:
        for each in sought:
            text = each.problem or f"is set back to {each.to}"
            joint = ": " if each.problem else " "
            print_line(console, styled(f"{each.subscription}{joint}{text}", "bad" if each.problem else ""))
    return ExitCode.FINDINGS if any(each.problem for each in sought) else ExitCode.FINE


def _run_dead_letters(request: Replay, deployment: Deployment, console: Console, form: Format) -> ExitCode:
    choice = Choice(functions=request.functions, most=request.most or MOST)
    topic = PubsubTopic(deployment.open_publisher, find_topic(deployment.own))
    if not request.sure:
        confirm(f"Publish {count_dead_letters(deployment, choice)} again?", sure=False)
    report = publish_again(open_queue(deployment), topic, choice, progress=_say_progress)
    if form.for_programs:
        dead_letters = [asdict(each) for each in report.dead_letters]
        counts = {"published": report.published, "left": report.kept}
        print_data({"dead_letters": dead_letters, **counts, "bounded": report.bounded}, form)
    else:
        _print_published(console, report)
    return ExitCode.FINE


def open_queue(deployment: Deployment) -> DeadLetterQueue:
    """Return the dead letters of a deployment."""
    return DeadLetterQueue(deployment.pubsub, find_subscription(deployment.own, DEAD_LETTERS))


def list_reasons(deployment: Deployment, choice: Choice) -> DeadLetterReport:
    """Return the chosen dead letters, which all stay, with what the functions logged about them."""
    report, _ = read_dead_letters(open_queue(deployment), choice)
    cluster = next(iter(deployment.ports.clusters))
    report.dead_letters = add_reasons(report.dead_letters, deployment.open_logs, cluster)
    return report


def count_dead_letters(deployment: Deployment, choice: Choice) -> str:
    """Return how many dead letters are chosen, in words."""
    report, _ = read_dead_letters(open_queue(deployment), choice)
    return count(len(report.dead_letters), "dead letter")


def _say_progress(published: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{published} published again")
        sys.stderr.flush()


def _print_published(console: Console, report: DeadLetterReport) -> None:
    if sys.stderr.isatty() and report.published:
        sys.stderr.write("\n")
    if report.dead_letters:
        print_columns(console, _HEADINGS, [_show(each) for each in report.dead_letters])
        print_line(console)
    print_line(console, f"{report.published} published again, {report.kept} not selected")
    if report.bounded:
        print_line(console, styled("stopped at --max; there can be more", "warn"))


def print_discarded(console: Console, report: DeadLetterReport, form: Format) -> None:
    """Print what became of dead letters that were to be removed."""
    if form.for_programs:
        dead_letters = [asdict(dead_letter) for dead_letter in report.dead_letters]
        counts = {"discarded": report.discarded, "left": report.kept}
        print_data({"dead_letters": dead_letters, **counts, "bounded": report.bounded}, form)
        return
    print_line(console, f"{report.discarded} removed, {report.kept} not selected")
    if report.bounded:
        print_line(console, styled(f"stopped at {MOST}; there can be more", "warn"))


def print_dead_letter_list(console: Console, report: DeadLetterReport) -> None:
    """Print dead letters that all stay."""
    if report.dead_letters:
        rows = [[*_show(each), each.reason, each.error or "-"] for each in report.dead_letters]
        print_columns(console, [*_HEADINGS, "REASON", "MESSAGE"], rows)
        print_line(console)
    more = ", and more" if report.bounded else ""
    print_line(console, f"{count(len(report.dead_letters), 'dead letter')}{more}")


def _show(dead_letter: DeadLetter) -> list[str]:
    return [
        dead_letter.message_id,
        dead_letter.publish_time,
        dead_letter.function or "-",
        dead_letter.subject or "-",
    ]
