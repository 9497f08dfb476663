"""Usual Google accounts work in every program; a failure says if a person or a retry mends it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import google.auth.compute_engine._metadata
import google.oauth2.credentials
import pytest

from cli.access.operator_access import open_deployment
from shared.edges.google import SCOPES, GoogleAccount
from shared.engine.outside import Ports
from shared.model.errors import Denied, Unavailable
from shared.settings import read_settings
from shared.wiring import build_ports
from tests.builders import CLUSTER
from tests.contract.fake_google import FakeGoogle


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeGoogle]:
    with FakeGoogle() as fake:
        point_at(fake, monkeypatch, tmp_path)
        yield fake


def point_at(fake: FakeGoogle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let google-auth in this process find nothing but the fake."""
    address = fake.url.removeprefix("http://")
    # google-auth reads this variable when it is imported.
    monkeypatch.setattr(google.auth.compute_engine._metadata, "_GCE_METADATA_HOST", address)
    # Else google-auth asks Google for the name of a pool's project.
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    # The file of a login does not say where its tokens come from.
    monkeypatch.setattr(google.oauth2.credentials, "_GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{fake.url}/token")
    monkeypatch.setattr("google.auth._exponential_backoff.time.sleep", lambda _: None)
    monkeypatch.setenv("GCE_METADATA_IP", address)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "nobody"))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)


def a_login(_fake: FakeGoogle, _folder: Path) -> dict[str, Any]:
    secrets = {"client_id": "c", "client_secret": "s", "refresh_token": "r", "quota_project_id": "p"}
    return {"type": "authorized_user", **secrets}


def a_pool_s_identity(fake: FakeGoogle, folder: Path) -> dict[str, Any]:
    (folder / "subject").write_text("a-jwt")
    return {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/x",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{fake.url}/sts/token",
        "credential_source": {"file": str(folder / "subject")},
    }


def impersonation(fake: FakeGoogle, folder: Path) -> dict[str, Any]:
    target = f"{fake.url}/v1/projects/-/serviceAccounts/ci@p.iam.gserviceaccount.com:generateAccessToken"
    return a_pool_s_identity(fake, folder) | {"service_account_impersonation_url": target}


SOURCES: dict[str, tuple[Callable[[FakeGoogle, Path], dict[str, Any]] | None, str]] = {
    "a person's login": (a_login, "Bearer token-1"),
    "a workload identity pool's file": (a_pool_s_identity, "Bearer token-1"),
    "an impersonated account": (impersonation, "Bearer impersonated"),
    "the metadata server": (None, "Bearer token-1"),
    "no account": (None, ""),
}


def of_the_functions(environ: dict[str, str]) -> Ports:
    return build_ports(read_settings(environ))


def of_the_command(environ: dict[str, str]) -> Ports:
    return open_deployment(environ).ports


@pytest.mark.parametrize("program", [of_the_functions, of_the_command])
@pytest.mark.parametrize("source", SOURCES)
def test_every_account_is_used_for_gke_and_for_kubernetes(
    fake: FakeGoogle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    program: Callable[[dict[str, str]], Ports],
) -> None:
    write, identity = SOURCES[source]
    if write:
        (tmp_path / "account.json").write_text(json.dumps(write(fake, tmp_path)))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    clusters = {CLUSTER: {"endpoint": f"{fake.url}/k"}}
    ports = program(
        {
            "TPU_PROVISIONER_CLUSTERS": json.dumps(clusters),
            "TPU_PROVISIONER_GKE_ENDPOINT": fake.url,
            "TPU_PROVISIONER_CREDENTIALS": "google" if identity else "anonymous",
        }
    )

    ports.pools.list(CLUSTER)
    ports.clusters[CLUSTER].get_namespace("kube-system")

    assert fake.identities == {f"/v1/{CLUSTER}/nodePools": identity, "/k/api/v1/namespaces/kube-system": identity}


def test_a_token_is_asked_for_once_and_with_the_scope_that_rbac_by_email_needs(fake: FakeGoogle) -> None:
    account = GoogleAccount()

    assert [account.give_token(), account.give_token()] == ["token-1", "token-1"]
    (asked,) = fake.tokens
    assert asked.startswith("/computeMetadata/v1/instance/service-accounts/default/token?")
    assert set(parse_qs(urlsplit(asked).query)["scopes"][0].split(",")) == set(SCOPES)
    assert "https://www.googleapis.com/auth/userinfo.email" in SCOPES


def test_a_token_is_renewed_before_it_ends(fake: FakeGoogle) -> None:
    """google-auth counts one as ended 225 seconds early, as the metadata server has the next."""
    account = GoogleAccount()
    fake.lifetime_seconds = 224
    account.give_token()

    fake.lifetime_seconds = 300
    assert [account.give_token(), account.give_token()] == ["token-2", "token-2"]


@pytest.mark.parametrize(
    ("status", "error"), [(404, Denied), (403, Denied), (503, Unavailable), (429, Unavailable)]
)
def test_a_refusal_says_whether_a_person_or_a_retry_mends_it(
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
