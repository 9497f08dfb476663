"""Are connections read as written, and refused in words that help?

Certificates and sockets are real.
"""

import base64
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from cli.access.connections import connection_from_kubeconfig
from exporter.exporter_settings import read_exporter_settings
from exporter.process import find_namespace, open_connection
from shared.edges.connection import TOKEN_REREAD_SECONDS, Connection, GkeConnection, TokenFile
from shared.edges.kubernetes import KubernetesApi, Stored
from shared.model.errors import Misconfigured, Unavailable
from standins.controlplane.certificates import write_credentials
from standins.kit.local_answers import Answer, Asked, LocalAnswers
from tests.exporter.test_exporter_settings import GOOD

SETTINGS = read_exporter_settings(GOOD)


class TlsServer(LocalAnswers):
    """An API with a certificate of an authority of its own, which notes the tokens of clients."""

    def __init__(self, folder: Path) -> None:
        write_credentials(folder)
        self.ca_file = folder / "ca.crt"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self.tokens: list[str | None] = []
        super().__init__(self._answer, tls=context)

    @property
    def ca_data(self) -> str:
        return base64.b64encode(self.ca_file.read_bytes()).decode()

    def _answer(self, asked: Asked) -> Answer:
        self.tokens.append(asked.headers.get("Authorization"))
        return Answer(200, b"{}")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    with TlsServer(tmp_path_factory.mktemp("tls") / "keys") as server:
        yield server


def ask(connection: Connection) -> None:
    KubernetesApi(connection, timeout_seconds=10).get("/api", Stored)


def by_gke(tls: TlsServer, _folder: Path) -> Connection:
    return GkeConnection(lambda: (tls.url, tls.ca_data), lambda: "account")


def by_kubeconfig(tls: TlsServer, folder: Path) -> Connection:
    (folder / "ca.crt").write_bytes(tls.ca_file.read_bytes())
    cluster = {"server": tls.url, "certificate-authority": "ca.crt"}
    return connection_from_kubeconfig(a_kubeconfig(folder, cluster, {"token": "account"}))


def by_settings(tls: TlsServer, folder: Path) -> Connection:
    for name in ("token", "namespace"):
        (folder / name).write_text("account")
    environ = {"ENDPOINT": tls.url, "CA_FILE": str(tls.ca_file), "TOKEN_FILE": str(folder / "token")}
    settings = read_exporter_settings(GOOD | {f"TPU_PROVISIONER_{name}": text for name, text in environ.items()})
    assert find_namespace(settings, folder) == "tpu-provisioner"
    return open_connection(settings)


def by_pod(tls: TlsServer, folder: Path) -> Connection:
    """The account of the pod is mounted."""
    for name, text in (("token", "account"), ("namespace", "tpu"), ("ca.crt", tls.ca_file.read_text())):
        (folder / name).write_text(text)
    host, _, port = tls.url.removeprefix("https://").partition(":")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    ipv6 = open_connection(SETTINGS, environ | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, folder)
    assert ipv6.url == f"https://[fd00::1]:{port}"
    assert find_namespace(SETTINGS, folder) == "tpu"
    chosen = read_exporter_settings(GOOD | {"TPU_PROVISIONER_LEASE_NAMESPACE": "own"})
    assert find_namespace(chosen, folder) == "own"
    return open_connection(SETTINGS, environ, folder)


@pytest.mark.parametrize("find", [by_gke, by_kubeconfig, by_settings, by_pod])
def test_each_way_to_the_api_has_its_address_its_authority_and_its_account(
    tls: TlsServer, tmp_path: Path, find: Callable[[TlsServer, Path], Connection]
) -> None:
    tls.tokens.clear()
    ask(find(tls, tmp_path))

    assert tls.tokens == ["Bearer account"]


@pytest.mark.parametrize(
    ("excepted", "through"),
    [("", True), ("127.0.0.1", False), ("other, 127.0.0.0/8", False), ("other,10.0.0.0/8", True)],
)
def test_the_proxy_of_the_environment_is_used_but_for_what_it_leaves_out(
    excepted: str, through: bool, tls: TlsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://someone:secret@127.0.0.1:9")
    monkeypatch.setenv("no_proxy", excepted)
    _, pool = by_gke(tls, tmp_path).reach()

    assert isinstance(pool, urllib3.ProxyManager) == through
    if isinstance(pool, urllib3.ProxyManager):
        assert str(pool.proxy) == "http://someone:secret@127.0.0.1:9"
        assert pool.proxy_headers["proxy-authorization"].startswith("Basic ")


@pytest.mark.parametrize("broken", [("https://h", "LS0tLS1CRUdJTg=="), ("https://h", "%"), ("h", "")])
def test_a_way_that_is_none_is_refused_before_anything_is_sent(broken: tuple[str, str]) -> None:
    with pytest.raises(Unavailable, match="GKE's answer cannot be read"):
        GkeConnection(lambda: broken, lambda: "").reach()


def test_an_address_that_changes_is_followed(tls: TlsServer) -> None:
    places = [("http://127.0.0.1:9", ""), (tls.url, tls.ca_data)]
    connection = GkeConnection(lambda: places.pop(0), lambda: "t")
    with pytest.raises(Unavailable):
        ask(connection)
    ask(connection)

    assert places == []


def a_kubeconfig(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    content: dict[str, Any] = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


def test_an_unknown_authority_or_another_name_is_refused(tls: TlsServer) -> None:
    # The same place, but not as the certificate names it.
    other_name = Connection(url=tls.url.replace("127.0.0.1", "127.1"), ca_file=str(tls.ca_file))
    for connection in (Connection(url=tls.url), other_name):
        with pytest.raises(Unavailable, match=r"(?i)certificate"):
            ask(connection)


@pytest.mark.parametrize(
    ("url", "user", "words"),
    [
        ("http://h", {"token": "t", "as": "someone"}, "'u': as is not supported"),
        ("http://h", {"tokenFile": "no.token"}, r"no\.token"),
        ("127.0.0.1", {}, "not an http:// or https:// URL: '127.0.0.1'"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_refused_with(
    url: str, user: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = a_kubeconfig(tmp_path, {"server": url}, user)
    with pytest.raises(Misconfigured, match=f"{path}.*{words}"):
        connection_from_kubeconfig(path)


def test_what_is_absent_is_named_with_the_way_out(tmp_path: Path) -> None:
    absent = {"TPU_PROVISIONER_ENDPOINT": "https://h", "TPU_PROVISIONER_CA_FILE": "/no/such"}
    with pytest.raises(Misconfigured, match="certificates: /no/such"):
        open_connection(read_exporter_settings(GOOD | absent))
    with pytest.raises(Misconfigured, match=r"token: cannot be read: No such file.*set TPU_PROVISIONER_ENDPOINT"):
        open_connection(SETTINGS, {}, tmp_path)
    (tmp_path / "token").write_text("mounted")
    with pytest.raises(Misconfigured, match="not an http:// or https:// URL: 'https://:'"):
        open_connection(SETTINGS, {}, tmp_path)


def test_a_token_file_is_read_again_at_most_once_a_minute_and_outlives_its_loss(tmp_path: Path) -> None:
    now, path = 0.0, tmp_path / "token"
    token = TokenFile(path, lambda: now)
    with pytest.raises(Misconfigured, match=str(path)):
        token()
    path.write_text("one\n")
    assert token() == "one"
    path.write_text("two\n")
    now = TOKEN_REREAD_SECONDS - 1
    assert token() == "one"
    now += 1
    assert token() == "two"
    path.unlink()
    now *= 2
    assert token() == "two"
