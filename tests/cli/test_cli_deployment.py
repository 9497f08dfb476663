"""Whose credentials are used, and how each cluster is reached."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import google.auth
import pytest
from google.auth.exceptions import DefaultCredentialsError, RefreshError

from cli.deployment import google_token, open_deployment
from cli.rehearsal import rehearse
from shared.core.errors import AlreadyExists, Denied, Misconfigured
from tests.builders import CLUSTER, a_pool
from tests.component.world import Records, World

if TYPE_CHECKING:
    from pathlib import Path

ENVIRON = {
    "TPU_PROVISIONER_CLUSTERS": json.dumps({CLUSTER: {"endpoint": "https://a.gke.goog"}}),
    "TPU_PROVISIONER_CREDENTIALS": "anonymous",
}


class FakeCredentials:
    """Credentials that are renewed once, or not at all."""

    def __init__(self, *, revoked: bool = False) -> None:
        self.valid, self.token, self.revoked, self.renewals = False, "", revoked, 0

    def refresh(self, _request: object) -> None:
        """Get a token."""
        if self.revoked:
            raise RefreshError("Token has been expired or revoked.")
        self.valid, self.token, self.renewals = True, "a-token", self.renewals + 1


def use(monkeypatch: pytest.MonkeyPatch, found: FakeCredentials | None) -> None:
    def default(scopes: object) -> tuple[FakeCredentials, str]:
        if found is None:
            raise DefaultCredentialsError("Your default credentials were not found.")
        return found, "p"

    monkeypatch.setattr(google.auth, "default", default)


def test_a_token_is_renewed_only_when_it_is_no_longer_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = FakeCredentials()
    use(monkeypatch, credentials)
    give = google_token()

    assert [give(), give()] == ["a-token", "a-token"]
    assert credentials.renewals == 1
    credentials.valid = False
    give()
    assert credentials.renewals == 2


@pytest.mark.parametrize("found", [None, FakeCredentials(revoked=True)])
def test_without_credentials_the_command_that_gets_them_is_named(
    monkeypatch: pytest.MonkeyPatch, found: FakeCredentials | None
) -> None:
    use(monkeypatch, found)

    with pytest.raises(Denied, match="gcloud auth application-default login"):
        google_token()()


def test_opening_a_deployment_asks_nobody() -> None:
    found = open_deployment(ENVIRON)

    assert list(found.apis) == [CLUSTER]
    assert found.logging is not None
    assert open_deployment(ENVIRON | {"TPU_PROVISIONER_LOGGING_ENDPOINT": ""}).logging is None


def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        open_deployment(ENVIRON | {"TPU_PROVISIONER_KUBECONFIG": str(tmp_path / "absent")})


def test_a_rehearsal_conflicts_as_gke_would_and_changes_nothing() -> None:
    world = World(Records())
    world.pools.add(CLUSTER, a_pool())
    ports = rehearse(world.ports)

    with pytest.raises(AlreadyExists):
        ports.pools.create(CLUSTER, {"name": a_pool().name})
    ports.pools.create(CLUSTER, {"name": "another"})
    ports.pools.delete(CLUSTER, a_pool().name)

    assert world.pools.names(CLUSTER) == [a_pool().name]
    assert ports.dead_letters is None
