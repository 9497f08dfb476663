"""The exporter under load: the first listing, CPU per watch event, latency to the acknowledgement.

The real process with its real clients and a lease, against `benchmarks.exporter_world`.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import httpx

from benchmarks.exporter_world import Numbers
from benchmarks.figures import Figure, compare, percentile
from benchmarks.processes import ROOT, Consumption, Failed, MeteredProcess, Staged
from benchmarks.samples import CLUSTER, TOPIC
from exporter.observed_objects import list_observed
from shared.kinds.table import KIND_NAMES, choose_kinds

SECTION = "exporter: from exec to all of a cluster of 50,000 pods listed and published"
EVENTS_SECTION = "exporter: watch events, demands at 200/s"
CHANGES = 2_000
PER_SECOND = 200.0
_WATCHES = len(list_observed("", choose_kinds(KIND_NAMES)))
_NUMBERS = Numbers(fresh=7_000, waiting=143, workloads=140, completed=20, watches=_WATCHES)
"""50,000 pods of seven kinds, 1,001 of them demands; 1,000 workloads."""


@dataclass(frozen=True, slots=True)
class _Run:
    """What one run of the exporter cost."""

    synced: Consumption
    end: Consumption
    change_milliseconds: float
    demand_milliseconds: float
    latencies: tuple[float, ...]


def measure(staged: Staged, folder: Path, runs: int, say: Callable[[str], None], *, quick: bool) -> list[Figure]:
    """Return the figures of some runs; each sends events for some seconds."""
    cost = []
    for run in range(runs):
        say(f"exporter, round {run + 1} of {runs}")
        cost.append(_run_once(staged, folder, 3.0 if quick else 10.0))
    rows: tuple[tuple[str, Callable[[_Run], float], str], ...] = (
        ("CPU per change of a known pod", lambda run: run.change_milliseconds, ""),
        ("CPU per new demand, published and logged", lambda run: run.demand_milliseconds, ""),
        ("receipt to acknowledged, p50", lambda run: percentile(run.latencies, 50), "exporter_latency_p50"),
        ("receipt to acknowledged, p99", lambda run: percentile(run.latencies, 99), "exporter_latency_p99"),
    )
    return [
        compare(SECTION, "peak memory", "MiB", lambda run: run.end.peak_mebibytes, cost, budget="exporter_memory"),
        compare(SECTION, "CPU", "s", lambda run: run.synced.cpu_seconds, cost, budget="exporter_sync"),
        *(compare(EVENTS_SECTION, what, "ms", read, cost, budget=key) for what, read, key in rows),
    ]


def _run_once(staged: Staged, folder: Path, seconds: float) -> _Run:
    log, ports_file = folder / "exporter.log", folder / "world.json"
    ports_file.unlink(missing_ok=True)
    world = MeteredProcess(
        [sys.executable, "-m", "benchmarks.exporter_world", json.dumps(asdict(_NUMBERS)), str(ports_file)],
        folder=ROOT,
        environment={},
        log=folder / "world.log",
    )
    with world:
        world.wait_until("the exporter's world", ports_file.exists)
        addresses = json.loads(ports_file.read_text(encoding="utf-8"))
        command, environment = [str(staged.python), "-m", "exporter"], _environment(addresses)
        exporter = MeteredProcess(command, folder=staged.code, environment=environment, log=log)
        control = httpx.Client(base_url=addresses["control"], timeout=120, trust_env=False)
        with exporter, control:
            exporter.wait_until(
                "the first listing", lambda: bool(control.get("/state").json()["synced"]), seconds=120.0
            )
            synced = exporter.consumption()
            demands = int(seconds * PER_SECOND)
            _emit(control, changes=CHANGES, demands=1)
            changed = exporter.consumption()
            sent = _emit(control, changes=0, demands=demands)
            end = exporter.consumption()
    return _Run(
        synced=synced,
        change_milliseconds=(changed.cpu_seconds - synced.cpu_seconds) * 1_000 / CHANGES,
        demand_milliseconds=(end.cpu_seconds - changed.cpu_seconds) * 1_000 / demands,
        latencies=_latencies(sent, log),
        end=end,
    )


def _environment(addresses: dict[str, str]) -> dict[str, str]:
    return {
        "MALLOC_ARENA_MAX": "1",  # as in exporter/Dockerfile
        "TPU_PROVISIONER_CLUSTER": CLUSTER,
        "TPU_PROVISIONER_ENDPOINT": addresses["kubernetes"],
        "TPU_PROVISIONER_TOPIC": TOPIC,
        "TPU_PROVISIONER_HTTP_PORT": "0",
        "PUBSUB_EMULATOR_HOST": addresses["pubsub_grpc"],
    }


def _emit(control: httpx.Client, *, changes: int, demands: int) -> dict[str, float]:
    asked = {"changes": changes, "demands": demands, "per_second": PER_SECOND}
    sent: dict[str, float] = control.post("/emit", json=asked).raise_for_status().json()
    return sent


def _latencies(sent: dict[str, float], log: Path) -> tuple[float, ...]:
    """Return milliseconds from sending each demand to the exporter's record of its acknowledgement.

    Raises Failed: an event has no such record.
    """
    acknowledged: dict[str, float] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record.get("message") == "published":
            acknowledged.setdefault(record["uid"], datetime.fromisoformat(record["time"]).timestamp())
    missing = sent.keys() - acknowledged.keys()
    if missing:
        raise Failed(f"{len(missing)} of {len(sent)} events were never recorded as published")
    return tuple((acknowledged[uid] - at) * 1_000 for uid, at in sent.items())
