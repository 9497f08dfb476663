"""Reads the requests and answers that Config Connector's authors record on Google Cloud.

They are the files `_http.log` of GoogleCloudPlatform/k8s-config-connector, read in place from a git
directory that a variable names: nothing of them is kept. Ids and times in them are replaced, error
details are left out, and of the polls of an operation only the last is there.

The authors hold their mock of Google Cloud to the same files, and wrote some of them with it. Those
of GKE show it: the mock calls every instance group alike. Other APIs' files do not show it. A few
older recordings, `_vcr_cassettes`, are of Google alone, but have no texts of errors.
"""

import json
import os
import re
import subprocess
import urllib.parse
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

VARIABLE = "GOOGLE_RECORDINGS"
"""Does not begin as the settings do: the command refuses such a variable that is no setting."""
REMEDY = f"a git clone of github.com/GoogleCloudPlatform/k8s-config-connector, whose path {VARIABLE} names"
FOLDER = "pkg/test/resourcefixture/testdata/basic"
GROUPS = "compute/v1beta1/computeinstancegroupmanager"
FOLDERS = ("container", "pubsub", GROUPS, "logging", "monitoring", "cloudfunctions", "cloudscheduler")
ENDS = ("/_http.log", "_vcr_cassettes/tf.yaml", "_vcr_cassettes/nontf.yaml")
PROJECT, NUMBER = "recorded-project", "123456789012"
_PLACEHOLDERS = {
    "${projectId}": PROJECT,
    "${projectNumber}": NUMBER,
    "${uniqueId}": "unique",
    "${operationID}": "operation-1711974896000-00000000-0000-0000-0000-000000000000",
}
_MOCKED = "/gke-containercluster-abcdef"
_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_STATUS = re.compile(r"(\d{3}) [A-Z][A-Za-z -]*")
_SECONDS = 60
_HTTP_REFUSAL = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its answer."""

    file: str  # the folder of its file, below `FOLDER`
    number: int
    method: str
    host: str
    path: str  # without the version of the API
    version: str
    query: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any]
    status: int
    answer: dict[str, Any]
    mocked: bool  # its file was written with the mock, as the names in it show

    @property
    def name(self) -> str:
        """Return what people find it by."""
        return f"{self.file}#{self.number}: {self.method} {self.path}"

    @property
    def kind(self) -> str:
        """Return the collection that it is about: ``nodePools``, ``operations``, ``topics``, …"""
        parts = self.path.split("/")
        return parts[-1] if len(parts) % 2 else parts[-2]


JUDGES: dict[str, Exchange] = {}


def find_recordings() -> bool:
    """Return whether the variable names a git directory, or a clone, that has the files."""
    return (clone := find_clone()) is not None and bool(_list_files(clone))


def judge(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Return exchanges, and count them as judges of this run."""
    found = list(exchanges)
    JUDGES.update({each.name: each for each in found})
    return found


def count_judges() -> list[str]:
    """Return for each API how many exchanges judged this run."""
    hosts = Counter(each.host for each in JUDGES.values())
    mocked = Counter(each.host for each in JUDGES.values() if each.mocked)
    messages = [
        f"{host}: {number} ({mocked[host]} known to be the mock's)" for host, number in sorted(hosts.items())
    ]
    return [*messages, f"all: {hosts.total()} ({mocked.total()} known to be the mock's)"]


@cache
def read_recordings() -> tuple[Exchange, ...]:
    """Return every exchange over REST; none where there are no recordings.

    A file whose object is left out of a partial clone is passed over.
    """
    clone = find_clone()
    if clone is None:
        return ()
    files = _list_files(clone)
    return tuple(each for name, text in _read_files(clone, files) for each in _read_file(name, text))


def read_log(file: str, text: str) -> Iterator[Exchange]:
    """Return the exchanges of one file, without those over gRPC."""
    for number, part in enumerate(re.split(r"^---$", text, flags=re.MULTILINE), 1):
        found = _read_exchange((file, number), _PLACEHOLDER.sub(_replace, part).strip(), mocked=_MOCKED in text)
        if found is not None:
            yield found


def read_cassette(file: str, text: str) -> Iterator[Exchange]:
    """Return the exchanges of a cassette that Google did not refuse: the others' texts are gone."""
    for each in yaml.load(text, Loader=yaml.CSafeLoader)["interactions"] or ():
        request, response = each["request"], each["response"]
        if response["code"] < _HTTP_REFUSAL:
            yield Exchange(
                file=file,
                number=each["id"],
                method=request["method"],
                **_read_address(request["url"]),
                body=_read_json(request["body"].splitlines()),
                status=response["code"],
                answer=_read_json(response["body"].splitlines()),
                mocked=False,
            )


def _read_file(name: str, text: str) -> Iterator[Exchange]:
    file = name.removesuffix("/_http.log")
    return read_log(file, text) if file != name else read_cassette(name, text)


def _replace(found: re.Match[str]) -> str:
    return _PLACEHOLDERS.get(found[0], found[1].lower())


def _read_exchange(place: tuple[str, int], text: str, *, mocked: bool) -> Exchange | None:
    method, _, rest = text.partition(" ")
    if method not in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        return None
    lines = rest.splitlines()
    at = next(at for at, line in enumerate(lines) if _STATUS.fullmatch(line))
    return Exchange(
        file=place[0],
        number=place[1],
        method=method,
        **_read_address(lines[0]),
        body=_read_json(lines[1:at]),
        status=int(lines[at][:3]),
        answer=_read_json(lines[at + 1 :]),
        mocked=mocked,
    )


def _read_address(url: str) -> dict[str, Any]:
    """Return the fields of an exchange that its URL has."""
    address = urllib.parse.urlsplit(url)
    # Compute Engine's paths begin with its own name, and most others with a version.
    version, _, path = address.path.removeprefix("/compute").lstrip("/").partition("/")
    query = dict(urllib.parse.parse_qsl(address.query))
    return {"host": address.netloc, "version": version, "path": path, "query": query}


def _read_json(lines: list[str]) -> dict[str, Any]:
    """Return the JSON object after the headers; empty if there is none."""
    begin = next((at for at, line in enumerate(lines) if line.startswith("{")), None)
    found: dict[str, Any] = json.loads("\n".join(lines[begin:])) if begin is not None else {}
    return found


def find_clone() -> Path | None:
    """Return the git directory that a variable names; None if there is none."""
    root = Path(os.environ.get(VARIABLE) or "/nowhere")
    return next((each for each in (root / ".git", root) if (each / "HEAD").is_file()), None)


def _list_files(clone: Path) -> list[str]:
    folders = [f"{FOLDER}/{each}" for each in FOLDERS]
    command = ["git", f"--git-dir={clone}", "ls-tree", "-r", "--name-only", "HEAD", "--", *folders]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=_SECONDS)
    return [name for name in done.stdout.splitlines() if name.endswith(ENDS)]


def _read_files(clone: Path, files: list[str]) -> Iterator[tuple[str, str]]:
    """Yield name and text of the files of a git directory that it has."""
    command = ["git", f"--git-dir={clone}", "cat-file", "--batch"]
    asked = "".join(f"HEAD:{file}\n" for file in files).encode()
    rest = subprocess.run(command, input=asked, capture_output=True, check=True, timeout=_SECONDS).stdout
    for file in files:
        head, _, rest = rest.partition(b"\n")
        if head.endswith(b" missing"):
            continue
        size = int(head.rpartition(b" ")[2])
        yield file.removeprefix(f"{FOLDER}/"), rest[:size].decode()
        rest = rest[size + 1 :]
