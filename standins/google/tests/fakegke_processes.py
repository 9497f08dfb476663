"""A fake GKE as a process of its own, started and ended by a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from standins.processes.stand_ins import StandIn, running_stand_in


class FakeProcess:
    """A running `python -m standins.google.gke serve`."""

    def __init__(self, stand_in: StandIn) -> None:
        self.child, self.log = stand_in.child, stand_in.log
        self.rest = stand_in.addresses["rest"]


@contextmanager
def fake_process(folder: Path, *arguments: str) -> Iterator[FakeProcess]:
    """Start a fake for project demo, cluster alpha in us-east5, with all machines."""
    place = (
        "--project=demo",
        "--location=us-east5",
        "--cluster=alpha",
        "--zone=us-east5-b",
        "--machines-everywhere",
    )
    with running_stand_in(folder, "standins.google", *place, *arguments) as stand_in:
        yield FakeProcess(stand_in)
