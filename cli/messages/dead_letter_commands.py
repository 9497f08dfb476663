"""``letters list``, ``show``, ``replay`` and ``discard``: the dead letters of a deployment."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cli.access.deployment_choice import open_chosen
from cli.exit_codes import EPILOG, BadInput, ExitCode, end_with, told
from cli.printing import Format, choose_format, open_console, print_data, print_line
from cli.shared_options import AsJson, DryRun, Output, Sure  # noqa: TC001 -- typer reads the annotations

if TYPE_CHECKING:
    from cli.messages.dead_letters import Choice

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Show dead letters, deliver them again, or remove them. A message that can never succeed becomes one.",
)
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID...", help="IDs of messages, as the list shows them.")]
Reasons = Annotated[
    list[str] | None, typer.Option("--reason", metavar="REASON", help="Only with this reason. Can be repeated.")
]


def _choose(ids: list[str] | None, reasons: list[str] | None) -> Choice:
    """Return which dead letters are meant.

    Raises:
        BadInput: a reason is none.
    """
    from cli.messages.dead_letters import Choice  # noqa: PLC0415 -- its libraries take half a second to load
    from cli.messages.replay import check_reasons  # noqa: PLC0415 -- see above

    check_reasons(tuple(reasons or ()))
    return Choice(ids=tuple(ids or ()), reasons=tuple(reasons or ()))


@app.command("list", epilog=EPILOG)
def list_dead_letters(reason: Reasons = None, output: Output = Format.TABLE, *, as_json: AsJson = False) -> None:
    """List the dead letters. All of them stay."""
    from cli.messages.dead_letters import read_dead_letters  # noqa: PLC0415 -- see _choose
    from cli.messages.replay import open_queue_to_look, print_dead_letter_list  # noqa: PLC0415 -- see _choose

    with told():
        form = choose_format(output, as_json=as_json)
        choice = _choose(None, reason)
        report, _ = read_dead_letters(open_queue_to_look(open_chosen()), choice)
    if form.for_programs:
        print_data({"letters": [asdict(each) for each in report.dead_letters], "bounded": report.bounded}, form)
    else:
        print_dead_letter_list(open_console(), report)


@app.command("show", epilog=EPILOG)
def show_dead_letter(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="ID of the message.")],
    output: Output = Format.TABLE,
    *,
    as_json: AsJson = False,
) -> None:
    """Print one dead letter: its attributes and its data."""
    from cli.messages.dead_letters import read_dead_letters  # noqa: PLC0415 -- see _choose
    from cli.messages.replay import open_queue_to_look  # noqa: PLC0415 -- see _choose

    with told():
        form = choose_format(output, as_json=as_json)
        _, dead_letters = read_dead_letters(open_queue_to_look(open_chosen()), _choose([message_id], None))
        if not dead_letters:
            raise BadInput(f"ID: no dead letter has it (got {message_id[:80]!r}); valid: an ID of letters list")
    message = dead_letters[0].message
    data = message.data.decode("utf-8", "replace")
    if form.for_programs:
        print_data({"message_id": message_id, "attributes": message.attributes, "data": data}, form)
        return
    console = open_console()
    for key, value in sorted(message.attributes.items()):
        print_line(console, f"{key}: {value}")
    print_line(console)
    print_line(console, data or "(no data)")


@app.command("replay", epilog=EPILOG)
def replay_dead_letters(
    ids: Ids = None,
    reason: Reasons = None,
    output: Output = Format.TABLE,
    *,
    dry_run: DryRun = False,
    sure: Sure = False,
    as_json: AsJson = False,
) -> None:
    """Publish dead letters again. It asks first.

    It takes the named ones, those with a reason, or all.
    """
    from cli.messages.replay import Request, replay_chosen  # noqa: PLC0415 -- see _choose

    request = Request(
        dead_letters=True, ids=tuple(ids or ()), reasons=tuple(reason or ()), dry_run=dry_run, sure=sure
    )
    replay_chosen(request, output, as_json=as_json)


@app.command("discard", epilog=EPILOG)
def discard_dead_letters(
    ids: Ids = None,
    reason: Reasons = None,
    output: Output = Format.TABLE,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Remove all of them.")] = False,
    sure: Sure = False,
    as_json: AsJson = False,
) -> None:
    """Remove dead letters for good. It asks first.

    It takes the named ones, those with a reason, or with --all every one.
    """
    from cli.messages.asking import confirm  # noqa: PLC0415 -- see _choose
    from cli.messages.dead_letters import discard  # noqa: PLC0415 -- see _choose
    from cli.messages.replay import count_dead_letters, name_left, open_queue, print_discarded  # noqa: PLC0415 -- see _choose

    with told():
        if bool(ids or reason) == everything:
            raise BadInput("letters discard: needs IDs or --reason, or --all alone; valid: one of these")
        form = choose_format(output, as_json=as_json)
        deployment, choice = open_chosen(), _choose(ids, reason)
        if not sure:
            confirm(f"Remove {count_dead_letters(deployment, choice)} for good?", sure=False)
        report = discard(open_queue(deployment), choice)
    print_discarded(open_console(), report, form)
    left = name_left(choice.ids, report)
    end_with(ExitCode.FINE if not left and (report.discarded or everything) else ExitCode.FINDINGS)
