"""What limits cost: calls for each create, alone and when ten workloads ask at the same time.

Calls are counted, not timed: the functions' own code runs on the fakes of the component tests, and
each sample is one order of all calls, drawn by a seed. An Event is one call.
"""

import logging
from collections.abc import Callable
from typing import Any

from benchmarks.figures import Figure, compare
from benchmarks.metering import Failed
from tests.component.crowd import CHIPS, WORKLOADS, Crowd

SECTION = "limits: calls for each message"
ROOM = WORKLOADS * CHIPS
"""A limit with room for all."""


def measure(runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return the calls for each message without limits, with them, and at the limit."""
    say("calls with and without limits")
    logging.getLogger().setLevel(logging.CRITICAL)  # the refusals are what is counted, not news
    lines: tuple[tuple[str, int, dict[str, int]], ...] = (
        ("one message, no limit", 1, {}),
        ("one message, with a limit", 1, {"limit_chips": ROOM}),
        ("ten messages at once, no limit", WORKLOADS, {}),
        ("ten messages at once, with a limit that has room for all", WORKLOADS, {"limit_chips": ROOM}),
        ("ten messages at once, with a limit that has room for one", WORKLOADS, {"limit_chips": CHIPS}),
    )
    baselines = [count_calls(seed, 1, {}) for seed in range(runs)]
    figures = []
    for what, messages, limits in lines:
        counted = [count_calls(seed, messages, limits) for seed in range(runs)]
        for method in ("", "list", "read_ledger", "write_ledger"):
            samples = tuple(sum(each.values()) if not method else each[method] for each in counted)
            if method and not any(samples):
                continue
            baseline = [] if method else [sum(each.values()) for each in baselines]
            figures.append(compare(SECTION, f"{what}: {method or 'all calls'}", "calls", float, samples, baseline))
    return figures


def count_calls(seed: int, messages: int, limits: dict[str, Any]) -> dict[str, float]:
    """Return the calls by method, for each message."""
    crowd = Crowd(seed, **limits)
    crowd.turns.run([crowd.message(pod) for pod in crowd.pods[:messages]])
    room = limits.get("limit_chips", ROOM) // CHIPS
    if len(crowd.pools.bodies) != min(messages, room):
        raise Failed(f"{len(crowd.pools.bodies)} creates for {messages} messages, with room for {room}")
    return {method: count / messages for method, count in crowd.count_calls().items()} | dict.fromkeys(
        {"list", "read_ledger", "write_ledger"} - crowd.count_calls().keys(), 0.0
    )
