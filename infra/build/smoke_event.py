#!/usr/bin/env python3
"""Prints an event about a pod that does not exist, in the words of `shared.model.messages`.

Three lines: its id, its attributes as gcloud takes them, its data. The function looks, and logs
that nothing is to be done.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from pathlib import Path

if __name__ == "__main__":  # as a script, only this folder is on the import path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from shared.model.messages import Event, EventType, format_message
from shared.model.names import ObjectName


def build_event(cluster: str, uid: str) -> Event:
    """Return a demand of a pod that no cluster has: nothing will be made for it."""
    subject = ObjectName(kind="Pod", namespace="tpu-provisioner", name="deployment-smoke-test", uid=uid)
    return Event(type=EventType.DEMAND, cluster=cluster, subject=subject)


def render(event: Event) -> list[str]:
    """Return the three lines."""
    message = format_message(event)
    attributes = ",".join(f"{name}={value}" for name, value in message.attributes.items())
    return [event.id, attributes, message.data.decode()]


def main() -> int:
    """Print an event that was never printed before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cluster", help="projects/P/locations/L/clusters/C")
    arguments = parser.parse_args()
    sys.stdout.writelines(f"{line}\n" for line in render(build_event(arguments.cluster, str(uuid.uuid4()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
