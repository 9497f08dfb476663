"""The Go provisioner's side: its process, and Google's edge as it expects it."""

import asyncio
import contextlib
import json
import ssl
import subprocess
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from demo.settings import CLUSTER, LOCATION, PROJECT, ZONE, Layout, StackSettings
from demo.stack import Stack
from standins.controlplane.certificates import write_credentials
from standins.kit.addresses import HOST, answers
from standins.kit.local_answers import Answer, Asked, LocalAnswers
from standins.kit.processes import Command, wait_until

GKE = "container.googleapis.com"
_PIECE_BYTES = 65_536
_START_SECONDS_MAX = 10.0
_ACCOUNT = "/computeMetadata/v1/instance/service-accounts/default/"
_TOKEN = {"access_token": "field", "expires_in": 3599, "token_type": "Bearer"}
_METADATA: dict[str, bytes] = {
    "/": b"computeMetadata/\n",
    "/computeMetadata/v1/universe/universe_domain": b"googleapis.com",
    _ACCOUNT: json.dumps({"aliases": ["default"], "email": "go@field.iam.gserviceaccount.com"}).encode(),
    f"{_ACCOUNT}token": json.dumps(_TOKEN).encode(),
}


class BadRequest(ValueError):
    """A connection to the proxy asked for something other than GKE."""


class GoogleEdge:
    """The proxy and the metadata server, while its ``with`` block runs."""

    def __init__(self, folder: Path, gke_rest: str) -> None:
        self._host, _, port = gke_rest.removeprefix("http://").rstrip("/").partition(":")
        self._port = int(port)
        write_credentials(folder, GKE)
        self._authority = folder / "ca.crt"
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self._metadata = LocalAnswers(_answer_metadata)
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="edge of Google Cloud", daemon=True)
        self.address = ""

    def __enter__(self) -> Self:
        self._metadata.__enter__()
        self._thread.start()
        self._listening.wait(_START_SECONDS_MAX)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS_MAX)
        self._metadata.__exit__()

    def environment(self) -> dict[str, str]:
        """Return the variables by which Google's client libraries find all this."""
        return {
            "HTTPS_PROXY": f"http://{self.address}",
            "SSL_CERT_FILE": str(self._authority),
            "GCE_METADATA_HOST": self._metadata.address,
            # No login of this machine's user may answer first.
            "CLOUDSDK_CONFIG": "/nonexistent",
            "HOME": "/nonexistent",
        }

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, HOST, 0))
        self.address = f"{HOST}:{server.sockets[0].getsockname()[1]}"
        self._listening.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                check_request((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
            except BadRequest:
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
                return
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await writer.drain()
            await writer.start_tls(self._tls)
            from_gke, to_gke = await asyncio.open_connection(self._host, self._port)
            await asyncio.gather(_carry(reader, to_gke), _carry(from_gke, writer))
        writer.close()


def check_request(head: str) -> None:
    """Return quietly when the head of a request asks for a connection to GKE.

    Raises BadRequest: it asks for anything else.
    """
    words = head.split("\r\n", 1)[0].split()
    if words[:2] != ["CONNECT", f"{GKE}:443"]:
        raise BadRequest(f"request: is not valid (got {' '.join(words[:2])!r}); valid: CONNECT {GKE}:443")


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    finally:
        writer.close()


def _answer_metadata(asked: Asked) -> Answer:
    found = _METADATA.get(asked.path.partition("?")[0])
    return Answer(404, b"{}") if found is None else Answer(200, found)


PROCESS = "go-provisioner"
_READY_SECONDS_MAX = 120.0


class GoStack(Stack):
    """A running stack whose provisioner is the program of the Go TPU Provisioner's own build."""

    def __init__(self, home: Path, settings: StackSettings, program: Path) -> None:
        super().__init__(home, settings)
        self._program = program
        self._edges = ExitStack()

    def __exit__(self, *given: object) -> None:
        super().__exit__(*given)
        self._edges.close()

    def _start_functions(self, ports: dict[str, int]) -> None:
        """Start none of ours."""

    def _start_exporter(self, port: int) -> None:
        edge = self._edges.enter_context(GoogleEdge(self.layout.home / "edge", self.addresses.gke_rest))
        self.supervisor.start(build_command(self.layout, self._program, edge.environment(), port))
        wait_until(
            lambda: answers(f"http://127.0.0.1:{port}/readyz"),
            what="the Go program",
            seconds=_READY_SECONDS_MAX,
            check=self.check,
        )


def build_command(layout: Layout, program: Path, edge: Mapping[str, str], port: int) -> Command:
    """Return the command of the program: its own defaults, and where the local cloud is."""
    return Command(
        name=PROCESS,
        arguments=(str(program), "--metrics-bind-address=0", f"--health-probe-bind-address=127.0.0.1:{port}"),
        folder=layout.home,
        restartable=True,
        environment={
            "KUBECONFIG": str(layout.kubeconfig),
            "GCP_PROJECT_ID": PROJECT,
            "GCP_CLUSTER_LOCATION": LOCATION,
            "GCP_CLUSTER": CLUSTER,
            "GCP_ZONE": ZONE,
            **edge,
        },
    )


def describe_program(program: Path) -> str:
    """Return module and commit of a Go program, as `go version -m` reads them from its file."""
    answer = subprocess.run(
        ["go", "version", "-m", str(program)], capture_output=True, text=True, check=False, timeout=60
    )
    return read_build_information(answer.stdout)


def read_build_information(text: str) -> str:
    """Return module, commit and whether its files were changed, from `go version -m`."""
    rows = [line.split() for line in text.splitlines()]
    module = next((row[1] for row in rows if row[:1] == ["mod"]), "unknown module")
    settings = dict(row[1].split("=", 1) for row in rows if row[:1] == ["build"] and "=" in row[1])
    commit = settings.get("vcs.revision", "unknown commit")
    changed = ", with changed files" if settings.get("vcs.modified") == "true" else ""
    return f"{module} at {commit}{changed}"
