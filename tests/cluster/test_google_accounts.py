"""A function's Google account at a real API server, which asks whose a token is, as GKE's does."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from shared.edges.google_account import SCOPES
from standins.controlplane.cache import Build
from standins.controlplane.commands import Choices
from standins.controlplane.plane import ControlPlane
from standins.controlplane.product_manifests import read_kustomization
from standins.controlplane.tests.controlplane_worlds import START_SECONDS_MAX
from standins.processes.kubeconfig import open_client, render_kubeconfig
from standins.processes.local_answers import LocalAnswers
from tests.cluster.google_tokens import GoogleTokens
from tests.cluster.kubernetes_manifests import MANIFESTS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(START_SECONDS_MAX)]

ACCOUNT, NUMBER = "tpu-provisioner-collect@PROJECT_ID.iam.gserviceaccount.com", "104857600000000000007"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def tokens() -> GoogleTokens:
    return GoogleTokens()


@pytest.fixture(scope="module")
def served(build: Build, tokens: GoogleTokens) -> Iterator[ControlPlane]:
    with (
        LocalAnswers(tokens.review) as reviews,
        ControlPlane(build, Choices(jobset=False, token_webhook=reviews.url)) as plane,
    ):
        plane.apply(read_kustomization(MANIFESTS / "base"))
        yield plane


def ask(plane: ControlPlane, folder: Path, token: str, path: str) -> httpx.Response:
    kubeconfig = folder / "kubeconfig"
    authority = plane.layout.authority.read_bytes()
    kubeconfig.write_text(render_kubeconfig(plane.url, authority=authority, token=token))
    with open_client(kubeconfig) as client:
        return client.get(path)


def test_it_has_the_rights_that_its_address_is_bound_to(
    served: ControlPlane, tokens: GoogleTokens, tmp_path: Path
) -> None:
    token = tokens.issue(ACCOUNT, NUMBER, SCOPES)

    assert ask(served, tmp_path, token, PODS).status_code == httpx.codes.OK
    refused = ask(served, tmp_path, token, "/api/v1/namespaces/default/secrets")
    assert refused.status_code == httpx.codes.FORBIDDEN
    assert f'User "{ACCOUNT}" cannot list resource "secrets"' in refused.json()["message"]


def test_without_the_scope_of_its_address_it_has_none(
    served: ControlPlane, tokens: GoogleTokens, tmp_path: Path
) -> None:
    refused = ask(served, tmp_path, tokens.issue(ACCOUNT, NUMBER, SCOPES[:1]), PODS)

    assert refused.status_code == httpx.codes.FORBIDDEN
    assert f'User "{NUMBER}" cannot list resource "pods"' in refused.json()["message"]


def test_a_token_that_nobody_issued_is_refused(served: ControlPlane, tmp_path: Path) -> None:
    assert ask(served, tmp_path, "made-up", PODS).status_code == httpx.codes.UNAUTHORIZED
