"""Are connections read as written, and refused in words that help? Certificates and sockets are real."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
import urllib3
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from shared.core.errors import Misconfigured, Unavailable
from shared.edges.kubernetes_api import KubernetesApi, connection_from_kubeconfig, connection_in_cluster
from shared.edges.kubernetes_connection import TOKEN_REREAD_SECONDS, TokenFile
from shared.edges.kubernetes_objects import Stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write_certificates(folder: Path) -> None:
    """An authority ``ca.crt``, and a certificate ``tls.crt`` with its key for 127.0.0.1 and client alike."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    day = dt.timedelta(days=1)

    def build(name: x509.Name, public: Any, extension: Any, *, critical: bool) -> x509.Certificate:
        builder = x509.CertificateBuilder(issuer, name, public, x509.random_serial_number(), now - day, now + day)
        return builder.add_extension(extension, critical=critical).sign(authority_key, hashes.SHA256())

    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    authority = build(
        issuer, authority_key.public_key(), x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    certificate = build(subject, key.public_key(), names, critical=False)
    pem = serialization.Encoding.PEM
    (folder / "ca.crt").write_bytes(authority.public_bytes(pem))
    (folder / "tls.crt").write_bytes(certificate.public_bytes(pem))
    (folder / "tls.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


class _Handler(BaseHTTPRequestHandler):
    seen: list[tuple[str | None, bool]]

    def do_GET(self) -> None:
        certificate = self.connection.getpeercert()  # type: ignore[attr-defined]  # it is a TLS socket
        self.seen.append((self.headers.get("Authorization"), bool(certificate)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the signature of http.server
        """Say nothing."""


class TlsServer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[tuple[str | None, bool]] = []
        self.server = HTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"seen": self.seen}))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        context.load_verify_locations(folder / "ca.crt")
        context.verify_mode = ssl.CERT_OPTIONAL
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]  # refused handshakes are expected
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def data(self, name: str) -> str:
        return base64.b64encode((self.folder / name).read_bytes()).decode()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    folder = tmp_path_factory.mktemp("tls")
    write_certificates(folder)
    server = TlsServer(folder)
    yield server
    server.server.shutdown()
    server.server.server_close()


def a_kubeconfig(
    folder: Path, cluster: dict[str, Any], user: dict[str, Any] | None = None, **overrides: Any
) -> Path:
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content | overrides))
    return path


def ask(path: Path) -> None:
    api = KubernetesApi(connection_from_kubeconfig(path), timeout_seconds=10)
    try:
        api.get("/api", Stored)
    finally:
        api.close()


def test_https_with_authority_and_token_as_data(tls: TlsServer, tmp_path: Path):
    cluster = {"server": tls.url, "certificate-authority-data": tls.data("ca.crt")}
    ask(a_kubeconfig(tmp_path, cluster, {"token": "secret"}))
    assert tls.seen[-1] == ("Bearer secret", False)


def test_https_with_files_beside_the_kubeconfig_and_a_client_certificate(tls: TlsServer, tmp_path: Path):
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (tmp_path / name).write_bytes((tls.folder / name).read_bytes())
    (tmp_path / "token").write_text("from-file\n")
    user = {"client-certificate": "tls.crt", "client-key": "tls.key", "tokenFile": "token"}
    ask(a_kubeconfig(tmp_path, {"server": tls.url, "certificate-authority": "ca.crt"}, user))
    assert tls.seen[-1] == ("Bearer from-file", True)


def test_https_with_client_certificate_as_data(tls: TlsServer, tmp_path: Path):
    user = {"client-certificate-data": tls.data("tls.crt"), "client-key-data": tls.data("tls.key")}
    ask(a_kubeconfig(tmp_path, {"server": tls.url, "certificate-authority-data": tls.data("ca.crt")}, user))
    assert tls.seen[-1] == (None, True)


def test_an_unknown_authority_is_refused(tls: TlsServer, tmp_path: Path):
    with pytest.raises(Unavailable, match=r"(?i)certificate"):
        ask(a_kubeconfig(tmp_path, {"server": tls.url}))


def test_verification_can_be_turned_off_in_so_many_words(tls: TlsServer, tmp_path: Path):
    with pytest.warns(urllib3.exceptions.InsecureRequestWarning):
        ask(a_kubeconfig(tmp_path, {"server": tls.url, "insecure-skip-tls-verify": True}))
    assert tls.seen[-1] == (None, False)


def test_another_name_in_the_certificate_is_refused_unless_it_is_expected(tls: TlsServer, tmp_path: Path):
    cluster = {"server": tls.url.replace("127.0.0.1", "localhost")}
    cluster["certificate-authority-data"] = tls.data("ca.crt")
    with pytest.raises(Unavailable):
        ask(a_kubeconfig(tmp_path, cluster))
    ask(a_kubeconfig(tmp_path, cluster | {"tls-server-name": "127.0.0.1"}))


def test_the_context_says_which_cluster_user_and_namespace(tmp_path: Path):
    path = a_kubeconfig(
        tmp_path,
        {"server": "http://127.0.0.1:1/prefix"},
        contexts=[{"name": "here", "context": {"cluster": "other"}}, {"name": "x", "context": {"cluster": "c"}}],
    )
    found = connection_from_kubeconfig(path, "x")
    assert (found.url, found.namespace, found.token) == ("http://127.0.0.1:1/prefix", "default", None)


PLAIN = {"server": "http://127.0.0.1:1"}
PROBLEMS: dict[str, tuple[dict[str, Any], str]] = {
    "an exec plugin": (
        {"users": [{"name": "u", "user": {"exec": {"command": "gke-gcloud-auth-plugin"}}}]},
        "exec: is not supported here; use a bearer token",
    ),
    "an auth provider": ({"users": [{"name": "u", "user": {"auth-provider": {"name": "gcp"}}}]}, "auth-provider"),
    "a password": ({"users": [{"name": "u", "user": {"username": "u", "password": "p"}}]}, "username"),
    "a proxy": ({"clusters": [{"name": "c", "cluster": PLAIN | {"proxy-url": "http://p"}}]}, "proxy-url"),
    "no current context": ({"current-context": ""}, "current-context: is empty"),
    "an unknown context": ({"current-context": "there"}, "contexts: no entry named 'there'; known: here"),
    "an unknown cluster": ({"clusters": []}, "clusters: no entry named 'c'; known: none"),
    "an unknown user": ({"users": None}, "users: no entry named 'u'; known: none"),
    "no URL": ({"clusters": [{"name": "c", "cluster": {"server": "127.0.0.1"}}]}, "'127.0.0.1' is not an http"),
    "a missing file": (
        {
            "clusters": [
                {"name": "c", "cluster": {"server": "https://h", "certificate-authority": "no.crt"}},
            ]
        },
        "certificate-authority: .*no.crt",
    ),
    "no base64": (
        {
            "clusters": [
                {"name": "c", "cluster": {"server": "https://h", "certificate-authority-data": "%"}},
            ]
        },
        "certificate-authority: ",
    ),
    "no certificate": (
        {
            "clusters": [
                {"name": "c", "cluster": {"server": "https://h", "certificate-authority-data": "eHg="}},
            ]
        },
        "certificates: ",
    ),
}


@pytest.mark.parametrize(("overrides", "text"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_kubeconfig_that_cannot_be_used_is_refused_with(overrides: dict[str, Any], text: str, tmp_path: Path):
    path = a_kubeconfig(tmp_path, PLAIN, **overrides)
    with pytest.raises(Misconfigured, match=text) as caught:
        connection_from_kubeconfig(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", ["a: [", "just text", "- a list"])
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, content: str):
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(Misconfigured, match=str(path)):
        connection_from_kubeconfig(path)


def test_the_pods_own_account_is_found(tls: TlsServer, tmp_path: Path):
    for name, content in (("token", "mounted"), ("namespace", "tpu"), ("ca.crt", None)):
        text = (tls.folder / name).read_text() if content is None else content
        (tmp_path / name).write_text(text)
    host, _, port = tls.url.removeprefix("https://").partition(":")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    connection = connection_in_cluster(environ, tmp_path)
    api = KubernetesApi(connection)
    api.get("/api", Stored)
    api.close()
    assert (api.namespace, tls.seen[-1]) == ("tpu", ("Bearer mounted", False))
    ipv6 = connection_in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path)
    assert ipv6.url == "https://[fd00::1]:443"


def test_outside_a_cluster_the_way_out_is_told(tmp_path: Path):
    with pytest.raises(Misconfigured, match="name a kubeconfig file instead"):
        connection_in_cluster({}, tmp_path)
    with pytest.raises(Misconfigured, match=r"ca\.crt"):
        connection_in_cluster({"KUBERNETES_SERVICE_HOST": "h"}, tmp_path)


def test_a_token_file_is_read_again_at_most_once_a_minute_and_outlives_its_loss(tmp_path: Path):
    now = 0.0
    path = tmp_path / "token"
    token = TokenFile(path, lambda: now)
    with pytest.raises(Misconfigured, match=str(path)):
        token()
    path.write_text("one\n")
    assert token() == "one"
    path.write_text("two\n")
    now = TOKEN_REREAD_SECONDS - 1
    assert token() == "one"
    now = TOKEN_REREAD_SECONDS
    assert token() == "two"
    path.unlink()
    now *= 2
    assert token() == "two"
