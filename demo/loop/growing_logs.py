"""What was added to a log since the last look: to that of a process, and to GKE's of its calls."""

import time
from pathlib import Path

import httpx

from demo.loop.log_records import parse_line, read_exporter_record, read_function_record
from demo.loop.observations import Called, Decided, MessagePublished


class LineReader:
    """Reads a growing file line by line; a line counts once it is whole."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def read(self) -> list[str]:
        """Return the lines since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as stream:
            stream.seek(self._offset)
            whole, newline, _rest = stream.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        return whole.decode("utf-8", "replace").split("\n") if whole else []


class RecordLog:
    """Reads the log of the exporter, or of a function by its name."""

    def __init__(self, path: Path, name: str) -> None:
        self._lines = LineReader(path)
        self._parse = read_exporter_record if name == "exporter" else read_function_record

    def read(self) -> list[Decided | MessagePublished]:
        """Return the records of interest since the last call."""
        records = [record for line in self._lines.read() if (record := parse_line(line))]
        return [seen for record in records if (seen := self._parse(record, time.time())) is not None]


class CallLog:
    """Reads which calls GKE was sent; the client's base URL is its API."""

    def __init__(self, client: httpx.Client) -> None:
        self._client, self._told = client, 0

    def read(self) -> list[Called]:
        """Return the calls since the last one.

        Raises httpx.HTTPError: there is no answer.
        """
        calls = self._client.get("/admin/calls").raise_for_status().json()["calls"]
        new, self._told = calls[self._told :], len(calls)
        return [
            Called(
                at=float(each["at"]), method=str(each["method"]), pool=str(each["pool"]), code=str(each["code"])
            )
            for each in new
        ]
