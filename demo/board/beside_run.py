"""The board of a stack that a demo runs: it only shows, because faults would fail the demo."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cli.access.operator_access import open_deployment
from cli.board.site import Board, listening
from demo.stack.operator_environment import operator_environment
from demo.stack.stack import Stack

EVERY_SECONDS = 1.0


@contextmanager
def board_beside(stack: Stack, say: Callable[[str], None]) -> Iterator[None]:
    """Serve the board of a running stack until the end of the block, and say its address."""
    environment = operator_environment(stack.layout, stack.settings, stack.addresses)
    board = Board(open_deployment(environment), every=EVERY_SECONDS)
    with listening(board):
        say(f"the board: {board.address}")
        yield
