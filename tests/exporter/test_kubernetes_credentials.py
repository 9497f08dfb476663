"""Are credentials renewed, and proxies used? Sockets and certificates are real."""

from __future__ import annotations

import datetime as dt
import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.config import incluster_config
from urllib3.util.ssl_ import create_urllib3_context

from shared.core.errors import Unavailable
from shared.edges.kubernetes_api import KubernetesApi, connection_from_kubeconfig, connection_in_cluster
from shared.edges.kubernetes_connection import TOKEN_REREAD_SECONDS
from shared.edges.kubernetes_objects import Stored
from tests.exporter.exporter_builders import a_jobset
from tests.exporter.scripted_kubernetes import ScriptedKubernetes, Stream, bookmark, event
from tests.exporter.test_kubernetes_connection import a_kubeconfig
from tests.exporter.tls_server import TlsServer

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"


def cluster_of(tls: TlsServer, **fields: str) -> dict[str, str]:
    return {"server": tls.url, "certificate-authority-data": tls.data("ca.crt"), **fields}


def tokens_of(tls: TlsServer, api: KubernetesApi, count: int) -> list[str | None]:
    for _ in range(count):
        api.get("/api", Stored)
    api.close()
    return [token for token, _ in tls.seen[-count:]]


def test_connections_share_one_context(tls: TlsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def count(*args: Any, **kwargs: Any) -> Any:
        made.append(args)
        return create_urllib3_context(*args, **kwargs)

    for module in ("shared.edges.kubernetes_connection", "urllib3.connection"):
        monkeypatch.setattr(f"{module}.create_urllib3_context", count)
    path = a_kubeconfig(tmp_path, cluster_of(tls), {"token": "secret"})

    tokens_of(tls, KubernetesApi(connection_from_kubeconfig(path)), 3)  # the server closes after each answer

    assert len(made) == 1


class Later(dt.datetime):
    """A clock that a test sets forward."""

    ahead = dt.timedelta()

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Later:
        """Return the time that the test wants."""
        return super().now(tz) + cls.ahead


def test_a_pods_token_that_is_rotated_during_a_watch_is_used_from_then_on(
    tls: TlsServer, kubernetes: ScriptedKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incluster_config, "datetime", SimpleNamespace(datetime=Later, timedelta=dt.timedelta))
    monkeypatch.setattr(Later, "ahead", dt.timedelta())
    for name, text in (("token", "first"), ("ca.crt", (tls.folder / "ca.crt").read_text())):
        (tmp_path / name).write_text(text)
    connection = connection_in_cluster(
        {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(kubernetes.port)}, tmp_path
    )
    connection.url = kubernetes.url  # scripted answers come over plain HTTP
    api = KubernetesApi(connection)
    lines = (event("ADDED", a_jobset("u", "5")), bookmark("9"))
    kubernetes.watches["jobsets"].append(Stream(lines))

    with api.watch(JOBSETS, {"resourceVersion": "4"}, Stored) as watch:
        events = iter(watch)
        assert next(events).type == "ADDED"
        (tmp_path / "token").write_text("second")
        api.read_version(JOBSETS)
        monkeypatch.setattr(Later, "ahead", dt.timedelta(seconds=TOKEN_REREAD_SECONDS))
        api.read_version(JOBSETS)
        (tmp_path / "token").unlink()
        monkeypatch.setattr(Later, "ahead", dt.timedelta(seconds=2 * TOKEN_REREAD_SECONDS))
        api.read_version(JOBSETS)
        assert next(events).type == "BOOKMARK"
    api.close()

    sent = [each.headers["Authorization"] for each in kubernetes.requests]
    assert sent == ["bearer first", "bearer first", "bearer second", "bearer second"]


class Tunnel(socketserver.BaseRequestHandler):
    """An HTTP proxy that only knows CONNECT."""

    asked: list[str]

    def handle(self) -> None:
        """Open the tunnel and pass bytes until one side ends."""
        asked = self.request.recv(65536).decode("latin-1")
        self.asked.append(asked)
        host, _, port = asked.split()[1].partition(":")
        with socket.create_connection((host, int(port))) as other:
            self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            sides = {self.request: other, other: self.request}
            while True:
                for side in select.select(list(sides), [], [])[0]:
                    data = side.recv(65536)
                    if not data:
                        return
                    sides[side].sendall(data)


class Proxy(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


@pytest.fixture
def proxy() -> Iterator[SimpleNamespace]:
    asked: list[str] = []
    with Proxy(("127.0.0.1", 0), type("Handler", (Tunnel,), {"asked": asked})) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield SimpleNamespace(url=f"http://127.0.0.1:{server.server_address[1]}", asked=asked)
        server.shutdown()


def test_the_kubeconfigs_proxy_gets_a_tunnel_and_no_token(
    tls: TlsServer, proxy: SimpleNamespace, tmp_path: Path
) -> None:
    path = a_kubeconfig(tmp_path, cluster_of(tls, **{"proxy-url": proxy.url}), {"token": "secret"})

    assert tokens_of(tls, KubernetesApi(connection_from_kubeconfig(path)), 2) == ["Bearer secret"] * 2

    assert all(asked.startswith(f"CONNECT {tls.url.removeprefix('https://')} ") for asked in proxy.asked)
    assert proxy.asked
    assert "secret" not in "".join(proxy.asked)


@pytest.mark.parametrize(("exempt", "tunnels"), [("", 1), ("10.0.0.0/8", 1), ("127.0.0.0/8", 0), ("127.0.0.1", 0)])
def test_the_environments_proxy_is_used_unless_the_host_is_exempt(
    tls: TlsServer,
    proxy: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    exempt: str,
    tunnels: int,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", exempt)
    path = a_kubeconfig(tmp_path, cluster_of(tls), {"token": "secret"})

    assert tokens_of(tls, KubernetesApi(connection_from_kubeconfig(path)), 1) == ["Bearer secret"]

    assert len(proxy.asked) == tunnels


def test_a_proxy_that_is_not_there_is_unavailable(tls: TlsServer, tmp_path: Path) -> None:
    path = a_kubeconfig(tmp_path, cluster_of(tls, **{"proxy-url": "http://127.0.0.1:9"}), {"token": "secret"})
    with pytest.raises(Unavailable, match=r"(?i)proxy"):
        KubernetesApi(connection_from_kubeconfig(path)).get("/api", Stored)
