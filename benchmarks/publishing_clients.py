"""Ways to publish to Pub/Sub: what each costs at the start, per lone message, and in memory."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure, percentile
from benchmarks.separate import run_module

if TYPE_CHECKING:
    from collections.abc import Callable

SECTION = "publishing one message at a time"
MESSAGES = 300
CLIENTS = {
    "rest": "REST over urllib3 (ours)",
    "grpc": "bare gRPC, messages of our own",
    "generated": "generated client of google-cloud-pubsub",
    "unbatched": "google-cloud-pubsub, max_messages=1",
    "official": "google-cloud-pubsub, defaults",
}


def measure(addresses: dict[str, str], runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return the figures of all clients, in alternating runs."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in range(runs):
        for client, name in CLIENTS.items():
            say(f"publishing, round {run + 1} of {runs}: {name}")
            address = addresses["pubsub_rest" if client == "rest" else "pubsub_grpc"]
            found[client].append(run_module("benchmarks.variants.publish", client, address, str(MESSAGES)))
    readings: tuple[tuple[str, str, Callable[[dict[str, Any]], float]], ...] = (
        ("CPU up to the first acknowledgement", "s", lambda each: float(each["start_cpu_seconds"])),
        ("CPU per message", "ms", lambda each: float(each["cpu_milliseconds"])),
        ("latency p50", "ms", lambda each: percentile(each["latencies_milliseconds"], 50)),
        ("peak memory", "MiB", lambda each: float(each["peak_mebibytes"])),
    )
    return [
        Figure(
            section=SECTION,
            what=f"{what}: {name}",
            unit=unit,
            samples=tuple(read(each) for each in found[client]),
            baseline=tuple(read(each) for each in found["rest"]) if client != "rest" else (),
        )
        for what, unit, read in readings
        for client, name in CLIENTS.items()
    ]
