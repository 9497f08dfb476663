"""A Ray program: two actors for each kind of accelerator, a question to each, then none.

Run by Ray's interpreter: ``driver.py GCS_ADDRESS ASK…``, each ASK one of the keys of `ASKS`. Every
line that it prints is a JSON object with `step` in it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import ray
from ray._private import services

ASKS: dict[str, dict[str, Any]] = {"TPU": {"resources": {"TPU": 4}}, "GPU": {"num_gpus": 1}}
"""What one actor asks for: the chips of a whole v6e host, or one GPU."""
ACTORS = 2
KEEP_SECONDS = 3.0
CONNECT_SECONDS_MAX = 300.0


class Worker:
    """An actor that says where it is."""

    def where(self) -> dict[str, Any]:
        """Return the pod it runs in and what it was given."""
        context = ray.get_runtime_context()
        return {
            "pod": os.environ.get("RAY_CLOUD_INSTANCE_ID", ""),
            "node": context.get_node_id(),
            "given": context.get_assigned_resources(),
            "accelerators": {kind: ids for kind, ids in context.get_accelerator_ids().items() if ids},
        }


def say(step: str, **fields: Any) -> None:
    """Write one line for the process that started this."""
    sys.stdout.write(json.dumps({"step": step, "at": time.time()} | fields) + "\n")
    sys.stdout.flush()


def own_address(_address: str | None = None) -> str:
    """Return the loopback address; Ray would choose this machine's outside address."""
    return "127.0.0.1"


def connect(address: str) -> None:
    """Connect to the head once it is there."""
    deadline = time.monotonic() + CONNECT_SECONDS_MAX
    while True:
        try:
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        except (ConnectionError, RuntimeError):
            if time.monotonic() > deadline:
                raise
            ray.shutdown()
            time.sleep(1)
        else:
            return


def main() -> None:
    """Ask, read the answers, release."""
    address, *kinds = sys.argv[1:]
    services.node_ip_address_from_perspective = own_address
    connect(address)
    say("connected")
    try:
        perform(kinds)
    except ray.exceptions.RayError as error:
        say("failed", error=str(error))
        raise


def perform(kinds: list[str]) -> None:
    """Ask for the actors of these kinds, read their answers, and release them.

    Raises RayError: an actor could not be had, or was lost.
    """
    # As everyone who works on machines that may go: what is lost is made again, and asked again.
    remote = ray.remote(max_restarts=-1, max_task_retries=-1)(Worker)
    actors = {kind: [remote.options(num_cpus=0, **ASKS[kind]).remote() for _ in range(ACTORS)] for kind in kinds}
    say("asked", asks={kind: ASKS[kind] for kind in kinds}, actors=ACTORS)
    for kind, asked in actors.items():
        for answer in ray.get([each.where.remote() for each in asked]):
            say("answered", kind=kind, **answer)
        time.sleep(KEEP_SECONDS)
        for each in asked:
            ray.kill(each)
        say("let go", kind=kind)


if __name__ == "__main__":
    main()
