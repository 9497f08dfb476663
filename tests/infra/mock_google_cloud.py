"""A mock of Google Cloud's APIs for real terraform and gcloud: MOCK_GOOGLE_CLOUD names it.

It listens as a proxy, and ends TLS with a certificate of its own. Pub/Sub is the project's own
stand-in, which answers a second create as Google does.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from standins.googlecloud.mock_program import NOT_FOR_CLIENTS, VARIABLE, MockCloud
from standins.processes.free_ports import draw_ports
from standins.processes.stand_ins import running, running_stand_in

PROJECT = "training-project"
HOST_PROJECT = "host-project"
"""Of a Shared VPC."""


@contextmanager
def serve_mock(
    folder: Path,
    *,
    require_enabled: bool = False,
    more: Mapping[str, str] | None = None,
    other_projects: tuple[str, ...] = (),
) -> Iterator[MockCloud]:
    """Yield a running mock with empty projects, usually one.

    Args:
        folder: For its files.
        require_enabled: Whether APIs must be enabled before they are called.
        more: By host, or by `*` and the end of its name: the URL of the server that answers for it.
        other_projects: Projects beside `PROJECT`.
    """
    (port,) = draw_ports(1)
    with running_stand_in(folder, "standins.pubsub") as pubsub:
        forwards = {"pubsub.googleapis.com": pubsub.addresses["rest"], **(more or {})}
        mock = MockCloud(
            folder=folder,
            port=port,
            project=PROJECT,
            other_projects=other_projects,
            forwards=forwards,
            require_enabled=require_enabled,
        )
        with running(mock.command(os.environ[VARIABLE]), folder, mock.is_ready):
            yield mock


def describe_programs(folder: Path, mock: MockCloud) -> dict[str, str]:
    """Return the environment in which gcloud and terraform talk to a mock."""
    kept = {name: value for name, value in os.environ.items() if name not in NOT_FOR_CLIENTS}
    return kept | mock.describe_clients() | mock.describe_gcloud(folder / "gcloud")
