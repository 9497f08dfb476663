"""Are connections read as written, and refused in words that help?

Certificates and sockets are real.
"""

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
from tests.exporter.test_exporter_settings import GOOD
from tests.exporter.tls_server import TlsServer

SETTINGS = read_exporter_settings(GOOD)


def ask(connection: Connection) -> None:
    KubernetesApi(connection, timeout_seconds=10).get("/api", Stored)


def a_private_endpoint(tls: TlsServer) -> GkeConnection:
    return GkeConnection(lambda: (tls.url, tls.ca_data), lambda: "of-the-account")


@pytest.mark.parametrize(
    ("excepted", "through"),
    [("", True), ("127.0.0.1", False), ("other, 127.0.0.0/8", False), ("other,10.0.0.0/8", True)],
)
def test_a_private_endpoint_comes_with_its_authority_and_through_the_proxy_of_the_environment(
    excepted: str, through: bool, tls: TlsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://someone:secret@127.0.0.1:9")
    monkeypatch.setenv("no_proxy", excepted)
    _, pool = a_private_endpoint(tls).reach()

    assert isinstance(pool, urllib3.ProxyManager) == through
    if isinstance(pool, urllib3.ProxyManager):
        assert str(pool.proxy) == "http://someone:secret@127.0.0.1:9"
        assert pool.proxy_headers["proxy-authorization"].startswith("Basic ")
    else:
        ask(a_private_endpoint(tls))
        assert tls.tokens[-1] == "Bearer of-the-account"


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


def test_a_kubeconfig_s_account_and_authority_are_used_by_its_own_client(tls: TlsServer, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(tls.ca_file.read_bytes())
    cluster = {"server": tls.url, "certificate-authority": "ca.crt"}
    ask(connection_from_kubeconfig(a_kubeconfig(tmp_path, cluster, {"token": "of-a-person"})))
    assert tls.tokens[-1] == "Bearer of-a-person"


def test_an_unknown_authority_or_another_name_is_refused(tls: TlsServer) -> None:
    ca_file = str(tls.ca_file)
    other_name = Connection(url=tls.url.replace("127.0.0.1", "localhost"), ca_file=ca_file)
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


def test_the_pods_own_account_is_found(tls: TlsServer, tmp_path: Path) -> None:
    for name, text in (("token", "mounted"), ("namespace", "tpu"), ("ca.crt", tls.ca_file.read_text())):
        (tmp_path / name).write_text(text)
    host, _, port = tls.url.removeprefix("https://").partition(":")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    ask(open_connection(SETTINGS, environ, tmp_path))
    assert tls.tokens[-1] == "Bearer mounted"
    assert find_namespace(SETTINGS, tmp_path) == "tpu"
    ipv6 = open_connection(SETTINGS, environ | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path)
    assert ipv6.url == f"https://[fd00::1]:{port}"


def test_outside_of_a_cluster_the_settings_say_where_the_api_is(tls: TlsServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-a-person")
    environ = {"ENDPOINT": tls.url, "CA_FILE": str(tls.ca_file), "TOKEN_FILE": str(tmp_path / "token")}
    settings = read_exporter_settings(GOOD | {f"TPU_PROVISIONER_{name}": text for name, text in environ.items()})
    ask(open_connection(settings))

    assert tls.tokens[-1] == "Bearer of-a-person"
    assert find_namespace(settings, tmp_path) == "tpu-provisioner"


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
