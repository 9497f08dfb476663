"""Reads the requests and answers that Config Connector's authors record on Google Cloud.

They are the files `_http.log` of GoogleCloudPlatform/k8s-config-connector, read in place from a git
directory that a variable names: nothing of them is kept. Ids and times in them are replaced, error
details are left out, and of the polls of an operation only the last is there.

The authors hold their mock of Google Cloud to the same files, and wrote some of them with it. Those
of GKE show it: the mock calls every instance group alike. Other APIs' files do not show it.
"""

import io
import json
import os
import re
import subprocess
import tarfile
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

VARIABLE = "GOOGLE_RECORDINGS"
"""Does not begin as the settings do: the command refuses such a variable that is no setting."""
REMEDY = f"a git clone of github.com/GoogleCloudPlatform/k8s-config-connector, whose path {VARIABLE} names"
FOLDER = "pkg/test/resourcefixture/testdata/basic"
PARTS = ("container", "pubsub", "compute/v1beta1/computeinstancegroupmanager")
GKE, COMPUTE, PUBSUB = (f"{name}.googleapis.com" for name in ("container", "compute", "pubsub"))
_OPERATION = "operation-1711974896000-00000000-0000-0000-0000-000000000000"
_PLACEHOLDERS = {"projectNumber": "123456789012", "operationID": _OPERATION}
"""What stands for a name in braces; another one is its own value."""
_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_MOCKED = "/gke-containercluster-abcdef"
_STATUS = re.compile(r"(\d{3}) [A-Z][A-Za-z -]*")
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request over REST and its answer."""

    file: str  # the folder of its file, below `FOLDER`
    number: int
    method: str
    host: str
    path: str  # without the version of the API
    version: str
    query: dict[str, str]
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


def find_recordings() -> bool:
    """Return whether the variable names a git directory, or a clone, that has the files."""
    return bool(_pack_files())


def select(host: str, *kinds: str, method: str = "", status: int = 0) -> list[Exchange]:
    """Return the exchanges with an API; an empty choice is every one."""
    return [
        each
        for each in read_recordings()
        if each.host == host
        and (not kinds or each.kind in kinds)
        and method in ("", each.method)
        and status in (0, each.status)
    ]


@cache
def read_recordings() -> tuple[Exchange, ...]:
    """Return every exchange; none where there are no recordings."""
    exchanges = list[Exchange]()
    if packed := _pack_files():
        with tarfile.open(fileobj=io.BytesIO(packed)) as files:
            for each in files:
                if each.name.endswith("/_http.log") and (file := files.extractfile(each)):
                    exchanges += _read_log(each.name.removesuffix("/_http.log"), file.read().decode())
    return tuple(exchanges)


def _pack_files() -> bytes:
    root = Path(os.environ.get(VARIABLE) or "/nowhere")
    folder = root / ".git" if (root / ".git").exists() else root
    command = ["git", f"--git-dir={folder}", "archive", f"HEAD:{FOLDER}", *PARTS]
    return subprocess.run(command, capture_output=True, check=False, timeout=60).stdout


def _read_log(file: str, text: str) -> Iterator[Exchange]:
    for number, part in enumerate(re.split(r"^---$", text, flags=re.MULTILINE), 1):
        method, _, rest = _PLACEHOLDER.sub(_fill, part).strip().partition(" ")
        if method not in _METHODS:
            continue  # it is over gRPC
        lines = rest.splitlines()
        at = next(at for at, line in enumerate(lines) if _STATUS.fullmatch(line))
        url = urllib.parse.urlsplit(lines[0])
        # Compute Engine's paths begin with its own name, and most others with a version.
        version, _, path = url.path.removeprefix("/compute").lstrip("/").partition("/")
        yield Exchange(
            file=file,
            number=number,
            method=method,
            host=url.netloc,
            path=path,
            version=version,
            query=dict(urllib.parse.parse_qsl(url.query)),
            body=_read_json(lines[1:at]),
            status=int(lines[at][:3]),
            answer=_read_json(lines[at + 1 :]),
            mocked=_MOCKED in text,
        )


def _fill(placeholder: re.Match[str]) -> str:
    return _PLACEHOLDERS.get(placeholder[1], placeholder[1].lower())


def _read_json(lines: list[str]) -> dict[str, Any]:
    """Return the JSON object after the headers; empty if there is none."""
    begin = next((at for at, line in enumerate(lines) if line.startswith("{")), len(lines))
    body: dict[str, Any] = json.loads("\n".join(lines[begin:]) or "{}")
    return body
