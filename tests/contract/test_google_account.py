"""Usual Google accounts work in every program; a failure says if a person or a retry mends it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import google.auth.compute_engine._metadata
import google.oauth2.credentials
import pytest

from cli.access.connections import open_deployment
from shared.deliver import build_ports
from shared.edges.google import SCOPES, GoogleAccount
from shared.engine.outside import Ports
from shared.model.errors import Denied, Unavailable
from shared.settings import read_settings
from standins.kit.local_answers import Answer, Asked, LocalAnswers
from tests.builders import CLUSTER


class FakeGoogle(LocalAnswers):
    """Gives tokens that count up, as metadata server and for a login; is GKE and a cluster too."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.status, self.lifetime_seconds = 200, 3599
        self.tokens: list[str] = []
        self.identities: dict[str, str] = {}

    def _answer(self, asked: Asked) -> Answer:
        path, body = urlsplit(asked.path).path, dict[str, Any]()
        if path.endswith("/token"):
            self.tokens.append(asked.path)
            body = {"access_token": f"token-{len(self.tokens)}", "expires_in": self.lifetime_seconds}
            body |= {"token_type": "Bearer", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
            return Answer(self.status, json.dumps(body).encode())
        if path == "/" or path.startswith("/computeMetadata/"):
            body = {"email": "functions@p.iam.gserviceaccount.com", "scopes": []}
        else:
            self.identities[path] = asked.headers.get("Authorization", "")
            body = {"metadata": {"uid": "u-1"}}
        return Answer(200, json.dumps(body).encode())


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeGoogle]:
    """Let google-auth in this process find nothing but the fake."""
    with FakeGoogle() as fake:
        address = fake.url.removeprefix("http://")
        # google-auth reads this variable when it is imported.
        monkeypatch.setattr(google.auth.compute_engine._metadata, "_GCE_METADATA_HOST", address)
        # The file of a login does not say where its tokens come from.
        monkeypatch.setattr(google.oauth2.credentials, "_GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{fake.url}/token")
        monkeypatch.setattr("google.auth._exponential_backoff.time.sleep", lambda _: None)
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
        monkeypatch.setenv("GCE_METADATA_IP", address)
        monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "nobody"))
        monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        yield fake


LOGIN = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}


@pytest.mark.parametrize(
    "open_ports", [lambda env: build_ports(read_settings(env)), lambda env: open_deployment(env).ports]
)
@pytest.mark.parametrize("source", ["a person's login", "the metadata server", "no account"])
def test_every_account_is_used_for_gke_and_for_kubernetes(
    fake: FakeGoogle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    open_ports: Callable[[dict[str, str]], Ports],
) -> None:
    if source == "a person's login":
        (tmp_path / "account.json").write_text(json.dumps(LOGIN))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    ports = open_ports(
        {
            "TPU_PROVISIONER_CLUSTERS": json.dumps({CLUSTER: {"endpoint": f"{fake.url}/k"}}),
            "TPU_PROVISIONER_GKE_ENDPOINT": fake.url,
            "TPU_PROVISIONER_CREDENTIALS": "anonymous" if source == "no account" else "google",
        }
    )

    ports.pools.list(CLUSTER)
    ports.clusters[CLUSTER].get_namespace("kube-system")

    identity = "" if source == "no account" else "Bearer token-1"
    assert fake.identities == {f"/v1/{CLUSTER}/nodePools": identity, "/k/api/v1/namespaces/kube-system": identity}


def test_a_token_is_asked_for_once_before_it_ends_and_with_the_scope_that_rbac_by_email_needs(
    fake: FakeGoogle,
) -> None:
    """google-auth counts one as ended 225 seconds early, as the metadata server has the next."""
    account = GoogleAccount()
    fake.lifetime_seconds = 224
    account.give_token()
    fake.lifetime_seconds = 300

    assert [account.give_token(), account.give_token()] == ["token-2", "token-2"]
    asked = fake.tokens[0]
    assert asked.startswith("/computeMetadata/v1/instance/service-accounts/default/token?")
    assert set(parse_qs(urlsplit(asked).query)["scopes"][0].split(",")) == set(SCOPES)
    assert "https://www.googleapis.com/auth/userinfo.email" in SCOPES


@pytest.mark.parametrize(("status", "error"), [(403, Denied), (503, Unavailable)])
def test_a_refusal_says_whether_a_person_or_a_retry_mends_it_and_is_not_kept(
    fake: FakeGoogle, status: int, error: type[Exception]
) -> None:
    account = GoogleAccount()
    fake.status = status
    with pytest.raises(error, match=str(status)):
        account.give_token()

    fake.status = 200
    assert account.give_token().startswith("token-")


def test_no_account_at_all_is_denied_and_the_command_that_gets_one_is_named(
    fake: FakeGoogle, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not fake.tokens
    monkeypatch.setattr(google.auth.compute_engine._metadata, "_NO_GCE_CHECK", True)

    with pytest.raises(Denied, match="gcloud auth application-default login"):
        GoogleAccount().give_token()
