"""A month of log records: how long `usage` reads it, and how much memory that takes.

The records are those of 10,000 slices that wait, fail, run and end, and of a sweep each minute. A
server of ours gives them in pages, as Cloud Logging does. The reader is the command's own, in a
process of its own.
"""

import json
from collections.abc import Callable, Iterator
from operator import itemgetter
from random import Random
from typing import Any

from benchmarks.figures import Figure, compare
from benchmarks.separate import run_module
from cli.moments import format_exact
from standins.processes.local_answers import Answer, Asked, LocalAnswers

SECTION = "usage"
SLICES, DAYS = 10_000, 30
BEGIN = 1_800_000_000.0
END = BEGIN + DAYS * 86_400
_CLUSTER = "projects/p/locations/us-east5/clusters/c"
_CREATING, _CREATED, _PAUSE, _ENDED = range(4)
_WORDS: dict[int, dict[str, Any]] = {
    _CREATING: {"decision": "wait", "reason": "pool_in_progress"},
    _CREATED: {"decision": "keep", "reason": "pool_created", "function": "settle"},
    _PAUSE: {"decision": "wait", "reason": "stockout", "failure": "stockout", "next_try": "2027-01-15T12:00:00Z"},
    _ENDED: {"decision": "delete", "reason": "workload_over", "function": "collect"},
}

Row = tuple[float, int, int, dict[str, Any]]
"""When it was written, of which slice and attempt, and what it says."""


class Month:
    """The records of a month, drawn at random. They become text when a page of them is read."""

    def __init__(self) -> None:
        rng = Random(1)
        rows = [row for number in range(SLICES) for row in _live(rng, number)]
        self.decisions = sorted((row for row in rows if row[0] < END), key=lambda row: row[0])
        self.sweeps = [BEGIN + minute * 60 for minute in range(DAYS * 1440)]

    @property
    def size(self) -> int:
        """Return the number of records."""
        return len(self.decisions) + len(self.sweeps)

    def answer(self, asked: Asked) -> Answer:
        """Return one page of ``entries:list``."""
        question = json.loads(asked.body)
        first, most = int(question.get("pageToken") or 0), question["pageSize"]
        rows: list[Any] = [] if "severity" in question["filter"] else self.decisions
        rows, write = (self.sweeps, _write_sweep) if "swept" in question["filter"] else (rows, _write)
        more = {"nextPageToken": str(first + most)} if first + most < len(rows) else {}
        entries = list(map(write, rows[first : first + most]))
        return Answer(200, json.dumps({"entries": entries, **more}).encode())


def _live(rng: Random, number: int) -> Iterator[Row]:
    """Yield the records of one slice: tries that fail, then one that succeeds, and its end."""
    at, attempt = BEGIN + rng.random() * (END - BEGIN), 0
    while True:
        reason = {
            "decision": "create",
            "reason": "pool_failed" if attempt else "pool_absent",
            "waited_seconds": 1.5,
        }
        yield at, number, attempt, reason | ({"failure": "stockout"} if attempt else {})
        fails = rng.random() < 0.25
        ready = at + (120 + rng.random() * 2000 if fails else 60 + rng.random() * 240)
        yield from _repeat(at, ready, number, attempt, _CREATING)
        if not fails:
            break
        at = ready + rng.random() * 600
        yield from _repeat(ready, at, number, attempt, _PAUSE)
        attempt += 1
    yield ready, number, attempt, _WORDS[_CREATED]
    yield ready + 600 + rng.random() * 40_000, number, attempt, _WORDS[_ENDED]


def _repeat(start: float, end: float, number: int, attempt: int, what: int) -> Iterator[Row]:
    """Yield what each sweep of a time says."""
    minute = start - (start - BEGIN) % 60 + 59
    while minute < end:
        if minute > start:
            yield minute, number, attempt, _WORDS[what]
        minute += 60


def _write(row: Row) -> dict[str, Any]:
    at, number, attempt, fields = row
    name = f"train-{number}"
    claim = {"cluster": _CLUSTER, "kind": "JobSet", "namespace": f"team-{number % 20}", "name": name}
    pool = f"{name}-slice-0-zbwwhyl6766-{attempt}"
    of_pool = fields["reason"] in ("pool_created", "workload_over")
    shape = {
        "tier": "spot" if number % 3 else "on-demand",
        "accelerator": "tpu-v6e-slice",
        "chips": 16,
        "machine_type": "ct6e-standard-4t",
        "node_count": 4,
        "topology": "4x4",
        "placement": "COMPACT 4x4",
        "reservation": "",
        "zone": "us-east5-b",
        "labels": {"cloud.google.com/gke-tpu-topology": "4x4"},
        "attempt": attempt,
    }
    facts = {
        "message": f"the decision about node pool {pool}, in a sentence of usual length for its owner",
        "service": "tpu-provisioner-sweep",
        "version": "0.2.0",
        "logger": "functions",
        "function": "sweep",
        "cluster": _CLUSTER,
        "pool": pool,
        "subject": f"node pool {pool}" if of_pool else f"Pod team/{name}-0",
        "claim": claim | {"owner_uid": f"00000000-0000-0000-0000-{number:012}", "slice": "slice-0"},
    }
    return _wrap(at, facts | ({} if of_pool else shape) | fields, f"{number}-{attempt}-{at:.3f}")


def _write_sweep(at: float) -> dict[str, Any]:
    counts = {"keep": 300, "wait": 5, "errors": 0}
    reasons = {
        "owner_live": 0,
        "pool_in_progress": 5,
        "grace_not_over": 0,
        "pods_still_bound": 0,
        "pool_failed": 0,
    }
    facts = {"message": "swept", "function": "sweep", "service": "tpu-provisioner-sweep", "version": "0.2.0"}
    return _wrap(at, facts | {"counts": counts, "reasons": reasons}, f"swept-{at}")


def _wrap(at: float, facts: dict[str, Any], name: str) -> dict[str, Any]:
    labels = {"project_id": "p", "service_name": "tpu-provisioner-sweep", "location": "us-east5"}
    return {
        "logName": "projects/p/logs/run.googleapis.com%2Fstdout",
        "resource": {"type": "cloud_run_revision", "labels": labels},
        "insertId": name,
        "timestamp": format_exact(at),
        "severity": "NOTICE",
        "jsonPayload": facts,
    }


def measure(runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return the CPU seconds and the memory of reading a month.

    Other work on the machine does not change these. What the network adds is not measured: Cloud
    Logging answers at most 60 pages of 1,000 records a minute.
    """
    month, found = Month(), list[dict[str, float]]()
    with LocalAnswers(month.answer) as server:
        for run in range(runs):
            say(f"usage of a month, round {run + 1} of {runs}")
            found.append(run_module("benchmarks.variants.read_usage", server.url, str(BEGIN), str(END)))
    what = f"a month of {SLICES:,} slices, {month.size:,} records"
    return [
        compare(SECTION, f"{what}: CPU", "s", itemgetter("seconds"), found, budget_key="usage_seconds"),
        compare(SECTION, f"{what}: memory", "MiB", itemgetter("peak_mebibytes"), found, budget_key="usage_memory"),
    ]
