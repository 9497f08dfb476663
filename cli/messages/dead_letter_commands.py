"""``dead-letters list`` and ``discard``: the messages that Pub/Sub gave up."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from cli.access.deployment_choice import open_chosen
from cli.exit_codes import EPILOG, BadInput, ExitCode, end_with, told
from cli.printing import Format, choose_format, open_console, print_data
from cli.shared_options import AsJson, Output, Sure  # noqa: TC001 -- typer reads the annotations

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Show or remove the messages that Pub/Sub gave up. `replay --dead-letters` delivers them again.",
)


@app.command("list", epilog=EPILOG)
def list_dead_letters(output: Output = Format.TABLE, *, as_json: AsJson = False) -> None:
    """List the dead letters, with the reasons that the functions logged. All of them stay.

    JSON and YAML have the attributes and the data of each.
    """
    from cli.messages.dead_letters import Choice  # noqa: PLC0415 -- its libraries take half a second to load
    from cli.messages.replay import list_reasons, print_dead_letter_list  # noqa: PLC0415 -- see above

    with told():
        form = choose_format(output, as_json=as_json)
        report = list_reasons(open_chosen(), Choice())
    if form.for_programs:
        found = [asdict(each) for each in report.dead_letters]
        print_data({"dead_letters": found, "bounded": report.bounded}, form)
    else:
        print_dead_letter_list(open_console(), report)


@app.command("discard", epilog=EPILOG)
def discard_dead_letters(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID...", help="IDs of messages, as the list shows them.")
    ] = None,
    output: Output = Format.TABLE,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Remove all of them.")] = False,
    sure: Sure = False,
    as_json: AsJson = False,
) -> None:
    """Remove dead letters for good. It asks first.

    It takes the named ones, or with --all every one.
    """
    from cli.messages.asking import confirm  # noqa: PLC0415 -- see list_dead_letters
    from cli.messages.dead_letters import Choice, discard  # noqa: PLC0415 -- see list_dead_letters
    from cli.messages.replay import count_dead_letters, open_queue, print_discarded  # noqa: PLC0415 -- see above

    with told():
        if bool(ids) == everything:
            raise BadInput("dead-letters discard: needs IDs, or --all alone; valid: one of these")
        form = choose_format(output, as_json=as_json)
        deployment, choice = open_chosen(), Choice(ids=tuple(ids or ()))
        if not sure:
            confirm(f"Remove {count_dead_letters(deployment, choice)} for good?", sure=False)
        report = discard(open_queue(deployment), choice)
    print_discarded(open_console(), report, form)
    absent = sorted(set(ids or ()) - report.seen)
    for each in absent:
        typer.echo(
            f"no dead letter has the ID {each[:80]!r}; tpu-provisioner dead-letters list shows them", err=True
        )
    end_with(ExitCode.FINDINGS if absent else ExitCode.FINE)
