"""The commands ``replay``, and ``dead-letters list`` and ``discard``.

What they do is imported at their first use: its libraries take half a second to load.
"""

from __future__ import annotations

from typing import Annotated

import typer

from cli.access import open_chosen
from cli.exit_codes import EPILOG, BadInput, ExitCode, answering
from cli.printing import Format, Output, Sure

dead_letters = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Show or remove the messages that Pub/Sub gave up. `replay --dead-letters` delivers them again.",
)


@answering
def replay(
    since: Annotated[
        str,
        typer.Option(metavar="TIME", help="Push again all messages since this time: RFC 3339, or 15m, 2h, 3d."),
    ] = "",
    output: Output = Format.TABLE,
    *,
    dead_letters: Annotated[bool, typer.Option("--dead-letters", help="Publish dead letters again.")] = False,
    sure: Sure = False,
) -> ExitCode:
    """Deliver messages again. This is always safe.

    A function decides from the present state, never from the content of a message. Give one of
    --since and --dead-letters. It asks first. `status` shows what would be decided now.

    Example: tpu-provisioner replay --since 2h
    """
    from cli.messages.replay import publish_dead_letters, seek_since  # noqa: PLC0415

    if bool(since) == dead_letters:
        got = "both" if since else "none"
        raise BadInput(f"replay: needs one source (got {got}); valid: --since or --dead-letters")
    if dead_letters:
        return publish_dead_letters(open_chosen(), output, sure=sure)
    return seek_since(since, open_chosen(), output, sure=sure)


@dead_letters.command("list", epilog=EPILOG)
@answering
def list_dead_letters(output: Output = Format.TABLE) -> ExitCode:
    """List the dead letters, with the reasons that the functions logged. All of them stay.

    JSON and YAML have the attributes and the data of each.

    Example: tpu-provisioner dead-letters list -o yaml
    """
    from cli.messages.replay import list_reasons, print_dead_letters  # noqa: PLC0415 -- see above

    print_dead_letters(list_reasons(open_chosen()), output)
    return ExitCode.FINE


@dead_letters.command("discard", epilog=EPILOG)
@answering
def discard_dead_letters(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID...", help="IDs of messages, as the list shows them.")
    ] = None,
    output: Output = Format.TABLE,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Remove all of them.")] = False,
    sure: Sure = False,
) -> ExitCode:
    """Remove dead letters for good. It asks first.

    It takes the named ones, or with --all every one.

    Example: tpu-provisioner dead-letters discard 1234567890
    """
    from cli.messages.replay import discard  # noqa: PLC0415 -- see above

    if bool(ids) == everything:
        raise BadInput("dead-letters discard: needs IDs, or --all alone; valid: one of these")
    return discard(tuple(ids or ()), open_chosen(), output, sure=sure)
