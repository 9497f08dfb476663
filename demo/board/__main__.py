"""``python -m demo.board``: the board of the local stack, with faults and examples."""

from pathlib import Path
from typing import Annotated

import typer

from cli.access.operator_access import open_deployment
from cli.board.listening import serve_board
from cli.board.site import Site
from cli.exit_codes import told
from demo.board.beside_run import EVERY_SECONDS
from demo.board.local_acts import list_acts
from demo.stack.background import NothingRuns, read_state
from demo.stack.layout import DEFAULT_HOME, Layout
from demo.stack.operator_environment import operator_environment
from terminal.wrong_arguments import Command, refuse

Home = Annotated[Path, typer.Option(help="The folder of the stack.", file_okay=False)]
Port = Annotated[int, typer.Option(help="Port on 127.0.0.1; 0: a free one.", min=0, max=65_535)]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def board(home: Home = DEFAULT_HOME, port: Port = 0) -> None:
    """Serve the board of the stack that `make up` started, with its buttons, until Ctrl-C."""
    layout = Layout(home.resolve())
    try:
        state = read_state(layout)
    except NothingRuns as error:
        refuse(error)
    with told():
        deployment = open_deployment(operator_environment(layout, state.settings, state.addresses))
        acts = list_acts(layout, state.addresses)
        serve_board(Site(deployment, write=True, acts=acts, every=EVERY_SECONDS), port=port, say=typer.echo)


if __name__ == "__main__":
    app()
