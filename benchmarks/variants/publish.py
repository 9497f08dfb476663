"""Publishes messages one by one through one client and prints what that took, as JSON.

Run as ``python -m benchmarks.variants.publish CLIENT ADDRESS COUNT`` in a process of its own per client, because
imports are most of the cost. ADDRESS is a base URL for ``rest`` and ``host:port`` for all others.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.core.events import Message

if TYPE_CHECKING:
    from collections.abc import Callable

TOPIC = "projects/bench-project/topics/workload-events"
MESSAGE = Message(
    b"x" * 300, {f"ce-attribute-{number}": "a value of forty characters, or just about" for number in range(7)}
)


def publish_rest(address: str) -> Callable[[], object]:
    """Return a publish over REST by urllib3, as the exporter does it."""
    import urllib3  # noqa: PLC0415 -- the import is part of what is measured

    from shared.edges.google_rest import GoogleRest  # noqa: PLC0415 -- as above
    from shared.edges.pubsub_topic import PubsubTopic  # noqa: PLC0415 -- as above

    topic = PubsubTopic(GoogleRest(address, http=urllib3.PoolManager(maxsize=2), token=None), TOPIC)
    return lambda: topic.publish([MESSAGE])


def publish_generated(address: str) -> Callable[[], object]:
    """Return a publish by the generated client of google-cloud-pubsub."""
    return _publish_by_variant("pubsub_generated", address)


def publish_bare_grpc(address: str) -> Callable[[], object]:
    """Return a publish over gRPC without a generated client."""
    return _publish_by_variant("pubsub_grpc", address)


def publish_official(address: str) -> Callable[[], object]:
    """Return a publish by google-cloud-pubsub's own publisher with its defaults."""
    return _publish_official(address, {})


def publish_unbatched(address: str) -> Callable[[], object]:
    """Return a publish by the same without batching."""
    return _publish_official(address, {"max_messages": 1})


def _publish_by_variant(module: str, address: str) -> Callable[[], object]:
    os.environ["BENCHMARK_PUBSUB_GRPC"] = address
    # Imported only now, because the import is part of what is measured. Neither variant looks at a REST client.
    variant: Any = import_module(f"benchmarks.variants.{module}")
    topic = variant.PubsubTopic(None, TOPIC)
    return lambda: topic.publish([MESSAGE])


def _publish_official(address: str, batching: dict[str, int]) -> Callable[[], object]:
    os.environ["PUBSUB_EMULATOR_HOST"] = address
    pubsub_v1: Any = import_module("google.cloud.pubsub_v1")  # as above
    publisher = pubsub_v1.PublisherClient(batch_settings=pubsub_v1.types.BatchSettings(**batching))
    return lambda: publisher.publish(TOPIC, MESSAGE.data, **MESSAGE.attributes).result()


CLIENTS = {
    "rest": publish_rest,
    "grpc": publish_bare_grpc,
    "generated": publish_generated,
    "unbatched": publish_unbatched,
    "official": publish_official,
}


def main(client: str, address: str, count: int) -> dict[str, float | list[float]]:
    """Return CPU seconds up to the first acknowledgement, CPU per further one, each one's latency, and memory."""
    publish = CLIENTS[client](address)
    publish()
    started = _cpu_seconds()
    latencies = []
    for _ in range(count):
        began = time.perf_counter()
        publish()
        latencies.append((time.perf_counter() - began) * 1_000)
    spent = _cpu_seconds() - started
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return {
        "start_cpu_seconds": started,
        "cpu_milliseconds": spent * 1_000 / count,
        "latencies_milliseconds": latencies,
        "peak_mebibytes": float(peak.split()[1]) / 1024,
    }


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
    sys.stdout.flush()
    # A client's background threads must not hold up the end.
    os._exit(0)
