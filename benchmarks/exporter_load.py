"""The exporter under load: the first listing, CPU per watch event, latency to the acknowledgement.

The real process with its real clients and a lease, against `benchmarks.exporter_world`.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx

from benchmarks.figures import Figure, compare, percentile
from benchmarks.metering import Consumption, Failed, MeteredProcess
from benchmarks.samples import CLUSTER, TOPIC
from benchmarks.staging import ROOT
from exporter.observed_objects import list_watched
from shared.kinds.table import KIND_NAMES, choose_kinds

SECTION = "exporter: from exec to all of a cluster of 50,000 pods listed and published"
EVENTS_SECTION = "exporter: watch events, demands at 200/s"
_SYNC_SECONDS = 120.0
CHANGES = 2_000
PER_SECOND = 200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What the selectors let through of the cluster's pods, and the workloads.

    They are of all kinds, in equal shares.
    """

    name: str
    fresh: int = 0
    waiting: int
    workloads: int = 1_000
    completed: int = 50
    sends_events: bool = False
    """Whether watch events follow the first listing."""


EMPTY = Scenario(name="an empty cluster, all kinds", waiting=0, workloads=0, completed=0)
USUAL = Scenario(name="1,000 waiting leaders, 1,000 workloads of all kinds", waiting=1_000, sends_events=True)
UNFILTERED = Scenario(
    name="selectors filter nothing: 50,000 pods of all kinds, 1,000 of them demands", fresh=49_000, waiting=1_000
)
SCENARIOS = (EMPTY, USUAL, UNFILTERED)


@dataclass(frozen=True, slots=True)
class StagedExporter:
    """One exporter that can be started."""

    code: Path
    """Folder with its packages ``exporter`` and ``shared``."""
    python: Path
    """Interpreter with exactly what it needs."""


@dataclass(frozen=True, slots=True)
class _Run:
    synced: Consumption
    change_milliseconds: float
    demand_milliseconds: float
    latencies: list[float]
    end: Consumption


class ExporterBench:
    """Runs the exporter from staged folders."""

    def __init__(self, staged: StagedExporter, folder: Path) -> None:
        """Prepare.

        Args:
            staged: The exporter as it is deployed.
            folder: For logs and ports files.
        """
        self._staged, self._folder = staged, folder

    def measure(self, runs: int, seconds: float, say: Callable[[str], None]) -> list[Figure]:
        """Return the figures of `runs` alternating runs; each sends events for `seconds`."""
        done: dict[str, list[_Run]] = {scenario.name: [] for scenario in SCENARIOS}
        for run in range(runs):
            for scenario in SCENARIOS:
                say(f"exporter, round {run + 1} of {runs}: {scenario.name}")
                done[scenario.name].append(self._run_once(scenario, seconds))
        figures = _floor_figures(done[EMPTY.name])
        for scenario in SCENARIOS[1:]:
            figures += _listing_figures(scenario, done[scenario.name], done[EMPTY.name])
            figures.append(_growth_figure(scenario, done[scenario.name], done[EMPTY.name]))
        return figures + _event_figures(done[USUAL.name])

    def _run_once(self, scenario: Scenario, seconds: float) -> _Run:
        staged, log = self._staged, self._folder / "exporter.log"
        with self._world(scenario) as world:
            addresses = self._addresses(world)
            exporter = MeteredProcess(
                [str(staged.python), "-m", "exporter"],
                folder=staged.code,
                environment=self._environment(addresses),
                log=log,
            )
            control = httpx.Client(base_url=addresses["control"], timeout=120, trust_env=False)
            with exporter, control:
                exporter.wait_until(
                    "the first listing",
                    lambda: bool(control.get("/state").json()["synced"]),
                    seconds=_SYNC_SECONDS,
                )
                synced = exporter.consumption()
                if not scenario.sends_events:
                    return _Run(synced, 0, 0, [], synced)
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

    def _world(self, scenario: Scenario) -> MeteredProcess:
        (self._folder / "world.json").unlink(missing_ok=True)
        numbers = {name: getattr(scenario, name) for name in ("fresh", "waiting", "workloads", "completed")}
        return MeteredProcess(
            [
                *(sys.executable, "-m", "benchmarks.exporter_world"),
                *(f"--{name}={number}" for name, number in numbers.items()),
                f"--watches={len(list_watched(choose_kinds(KIND_NAMES)))}",
                f"--ports-file={self._folder / 'world.json'}",
            ],
            folder=ROOT,
            environment={},
            log=self._folder / "world.log",
        )

    def _addresses(self, world: MeteredProcess) -> dict[str, str]:
        ports_file = self._folder / "world.json"
        world.wait_until("the exporter's world", ports_file.exists)
        addresses: dict[str, str] = json.loads(ports_file.read_text(encoding="utf-8"))
        return addresses

    @staticmethod
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


def _latencies(sent: dict[str, float], log: Path) -> list[float]:
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
    return [(acknowledged[uid] - at) * 1_000 for uid, at in sent.items()]


def _floor_figures(floor: list[_Run]) -> list[Figure]:
    return [
        compare(SECTION, f"peak memory, {EMPTY.name}", "MiB", lambda run: run.end.peak_mebibytes, floor),
        compare(SECTION, f"CPU, {EMPTY.name}", "s", lambda run: run.end.cpu_seconds, floor),
    ]


def _listing_figures(scenario: Scenario, runs: list[_Run], floor: list[_Run]) -> list[Figure]:
    memory, cpu = f"peak memory, {scenario.name}", f"CPU, {scenario.name}"
    return [
        compare(SECTION, memory, "MiB", lambda run: run.end.peak_mebibytes, runs, floor, "exporter_memory"),
        compare(SECTION, cpu, "s", lambda run: run.synced.cpu_seconds, runs, floor, "exporter_sync"),
    ]


def _growth_figure(scenario: Scenario, runs: list[_Run], empty: list[_Run]) -> Figure:
    pairs = zip(runs, empty, strict=True)
    grown = [run.end.peak_mebibytes - floor.end.peak_mebibytes for run, floor in pairs]
    what = f"growth of memory over an empty cluster, {scenario.name}"
    return compare(SECTION, what, "MiB", float, grown, budget_key="exporter_growth")


def _event_figures(runs: list[_Run]) -> list[Figure]:
    rows: tuple[tuple[str, Callable[[_Run], float], str], ...] = (
        ("CPU per change of a known pod", lambda run: run.change_milliseconds, ""),
        ("CPU per new demand, published and logged", lambda run: run.demand_milliseconds, ""),
        ("receipt to acknowledged, p50", lambda run: percentile(run.latencies, 50), "exporter_latency_p50"),
        ("receipt to acknowledged, p99", lambda run: percentile(run.latencies, 99), "exporter_latency_p99"),
    )
    return [compare(EVENTS_SECTION, what, "ms", read, runs, budget_key=key) for what, read, key in rows]
