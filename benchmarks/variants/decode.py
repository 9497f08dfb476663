"""Decodes a page of a pod list, or the lines of a watch, in one way; prints what it took, as JSON.

Run as ``python -m benchmarks.variants.decode WAY FILE ROUNDS`` in a process of its own per way.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def by_msgspec() -> Callable[[bytes], Any]:
    """Return our way: only the fields that are read."""
    import msgspec  # noqa: PLC0415 -- the import is part of what is measured

    from shared.edges.kubernetes_objects import Page  # noqa: PLC0415 -- as above
    from shared.edges.workload_objects import Pod  # noqa: PLC0415 -- as above

    return msgspec.json.Decoder(Page[Pod]).decode


def by_json() -> Callable[[bytes], Any]:
    """Return the standard library's way."""
    return json.loads


def watch_by_msgspec() -> Callable[[list[bytes]], int]:
    """Return the exporter's reading of a watch, each event in its own chunk, as servers do."""
    from shared.edges.kubernetes_watch import Watch  # noqa: PLC0415 -- as above
    from shared.edges.workload_objects import Pod  # noqa: PLC0415 -- the import is part of what is measured

    class Recorded:
        chunked = True

        def __init__(self, lines: list[bytes]) -> None:
            self._lines = lines

        def read_chunked(self, _size: int) -> Iterator[bytes]:
            return iter(self._lines)

    def read(lines: list[bytes]) -> int:
        answer: Any = Recorded(lines)
        return sum(1 for _ in Watch("WATCH", answer, Pod))

    return read


def watch_by_json() -> Callable[[list[bytes]], int]:
    """Return the standard library's reading of a watch."""
    return lambda lines: sum(1 for line in lines if json.loads(line))


WAYS: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "msgspec": by_msgspec,
    "json": by_json,
    "watch": watch_by_msgspec,
    "watch-json": watch_by_json,
}


def main(way: str, file: Path, rounds: int) -> dict[str, float]:
    """Return the number of pods, the CPU milliseconds of all, and the peak process memory."""
    decode: Callable[[Any], Any] = WAYS[way]()
    page: Any = file.read_bytes()
    if way.startswith("watch"):
        page = page.splitlines(keepends=True)
    # The first round builds what is built once.
    pods = _count(decode(page))
    began = time.process_time()
    for _ in range(rounds):
        decode(page)
    spent = time.process_time() - began
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return {
        "pods": pods,
        "cpu_milliseconds": spent * 1_000 / rounds,
        "peak_mebibytes": float(peak.split()[1]) / 1024,
    }


def _count(decoded: Any) -> int:
    if isinstance(decoded, int):
        return decoded
    return len(decoded["items"] if isinstance(decoded, dict) else decoded.items)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
