"""Decoding: a watch event by the exporter's own `Watch`, a page of a pod list in two ways."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Figure, compare
from benchmarks.sample_objects import waiting_leader
from benchmarks.separate import run_module

SECTION = "exporter: decoding"
PAGE_PODS = 500
WAYS = {"json": "json of the standard library", "msgspec": "msgspec, only the fields that are read (ours)"}
ROUNDS = {"json": 3, "msgspec": 10}


def measure(folder: Path, runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return the figures of decoding, each run of every way beside the others."""
    return [_measure_event(folder, runs, say), *_measure_pages(folder, runs, say)]


def _measure_event(folder: Path, runs: int, say: Callable[[str], None]) -> Figure:
    leader = waiting_leader()
    lines = [b'{"type":"MODIFIED","object":%b}\n' % leader.make(number, number) for number in range(PAGE_PODS)]
    file = folder / "watch.jsonl"
    file.write_bytes(b"".join(lines))
    samples: dict[str, list[float]] = {"watch": [], "watch-json": []}
    for run in range(runs):
        for way, found in samples.items():
            say(f"decoding watch events, round {run + 1} of {runs}: {way}")
            milliseconds = run_module("benchmarks.variants.decode", way, str(file), "5")["cpu_milliseconds"]
            found.append(milliseconds / PAGE_PODS)
    what = f"one watch event of {len(lines[0]) / 1_000:.0f} kB (baseline: json of the standard library)"
    return compare(SECTION, what, "ms", float, samples["watch"], samples["watch-json"], "exporter_decode")


def _measure_pages(folder: Path, runs: int, say: Callable[[str], None]) -> list[Figure]:
    leader = waiting_leader()
    pods = b",".join(leader.make(number) for number in range(PAGE_PODS))
    page = folder / "page.json"
    page.write_bytes(
        b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[%b]}' % pods
    )
    spent: dict[str, list[float]] = defaultdict(list)
    memory: dict[str, list[float]] = defaultdict(list)
    for run in range(runs):
        for way, name in WAYS.items():
            say(f"decoding a page, round {run + 1} of {runs}: {name}")
            found = run_module("benchmarks.variants.decode", way, str(page), str(ROUNDS[way]))
            spent[way].append(found["cpu_milliseconds"])
            memory[way].append(found["peak_mebibytes"])
    page_of = f"a page of {PAGE_PODS} pods"
    return [
        compare(
            SECTION, f"{page_of}, {what}: {name}", unit, float, samples[way], samples["json"] * (way != "json")
        )
        for what, unit, samples in (("CPU", "ms", spent), ("peak memory", "MiB", memory))
        for way, name in WAYS.items()
    ]
