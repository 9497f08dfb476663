"""``config set``, ``get``, ``list`` and ``unset``: the file that a person keeps settings in."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from cli.access.config_file import check_key, check_value, find_file, list_keys, read_file, write_file
from cli.exit_codes import EPILOG, BadInput, told

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Keep settings in a file, so that no variables are needed. Keys are project, cluster, context, zone, and "
    "the settings without TPU_PROVISIONER_ in lower case.",
)


def _complete(incomplete: str) -> list[str]:
    return [key for key in list_keys() if key.startswith(incomplete)]


Key = Annotated[
    str, typer.Argument(metavar="KEY", help="Name of a setting, for example cluster.", autocompletion=_complete)
]


@app.command("set", epilog=EPILOG)
def set_value(
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Its value, as the variable would have it.")],
) -> None:
    """Keep a value in the file.

    Example: tpu-provisioner config set zone us-east5-b
    """
    with told():
        check_key(key)
        check_value(key, value)
        path = find_file(os.environ)
        write_file(path, read_file(path) | {key: value})


@app.command("get", epilog=EPILOG)
def get_value(key: Key) -> None:
    """Print the kept value."""
    with told():
        check_key(key)
        path = find_file(os.environ)
        values = read_file(path)
        if key not in values:
            raise BadInput(f"{key}: is not set in {path}; valid: config set {key} VALUE")
    typer.echo(values[key])


@app.command("unset", epilog=EPILOG)
def unset_value(key: Key) -> None:
    """Take a value out of the file."""
    with told():
        check_key(key)
        path = find_file(os.environ)
        values = read_file(path)
        if values.pop(key, None) is not None:
            write_file(path, values)


@app.command("list", epilog=EPILOG)
def list_values() -> None:
    """Print the path of the file, and each kept value."""
    with told():
        path = find_file(os.environ)
        values = read_file(path)
    typer.echo(f"# {path}", err=True)
    for key, value in sorted(values.items()):
        typer.echo(f"{key} = {value}")
