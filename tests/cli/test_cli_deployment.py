"""A deployment is found by its project and its name, unless the environment describes it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.access import deployment
from cli.access.connections import open_deployment
from cli.access.deployment import DEAD_LETTERS, NAME, Choice, list_services, read_environment, resolve
from cli.exit_codes import BadInput
from shared.edges.google import GoogleSession
from shared.model.errors import Unavailable
from tests.builders import CLUSTER

ROOT = Path(__file__).resolve().parents[2]
OTHER = "projects/p/locations/us-east5/clusters/second"
CLUSTERS = json.dumps({CLUSTER: {"endpoint": "https://one"}, OTHER: {"endpoint": "https://two"}})
SETTINGS = {"TPU_PROVISIONER_CLUSTERS": CLUSTERS, "TPU_PROVISIONER_LIMIT_CHIPS": "64", "LOG_EXECUTION_ID": "true"}
FUNCTIONS = ("provision", "collect")


def a_service(name: str, settings: dict[str, str] | None = None) -> dict[str, Any]:
    env = [{"name": key, "value": value} for key, value in (settings or {}).items()]
    return {
        "metadata": {"name": name, "labels": {"cloud.googleapis.com/location": "us-east1"}},
        "spec": {"template": {"spec": {"containers": [{"image": "i", "env": env}]}}},
    }


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Lets the project have these deployments after a program of others; returns what is asked."""
    asked: list[str] = []

    def put(*names: str) -> list[str]:
        ours = [a_service(f"{name}-{each}", SETTINGS) for name in names for each in FUNCTIONS]
        pages = {"": {"items": [a_service("shop")], "metadata": {"continue": "x y"}}, "x%20y": {"items": ours}}

        def call(_session: GoogleSession, method: str, path: str) -> bytes:
            asked.append(f"{method} {path}")
            return json.dumps(pages[path.partition("?continue=")[2]]).encode()

        monkeypatch.setattr(GoogleSession, "call", call)
        monkeypatch.setattr(deployment, "find_default_project", lambda: "of-gcloud")
        return asked

    return put


def find(environ: dict[str, str], **choice: str) -> tuple[dict[str, str], list[str]]:
    """Return the variables that are found, and what is told."""
    told: list[str] = []
    return resolve(environ, Choice(**choice), say=told.append), told


def test_an_answer_of_another_form_is_no_list_of_services() -> None:
    run: Any = SimpleNamespace(call=lambda *_: b"[]")

    with pytest.raises(Unavailable, match="cannot be read"):
        list_services(run, "p")


def test_the_names_are_those_of_terraform() -> None:
    module = ROOT / "infra/terraform/modules/provisioner"
    text = "".join(path.read_text() for path in module.glob("*.tf"))

    for end in ("workload-events", DEAD_LETTERS, "${each.key}"):
        assert f'"${{var.name}}-{end}"' in text
    assert re.search(r'= "\$\{var.name\}-\$\{each.\w+\}-ends"', text)
    assert f'default     = "{NAME}"' in (module / "variables.tf").read_text()


@pytest.mark.parametrize(
    ("environ", "choice", "project", "name"),
    [
        ({}, {}, "of-gcloud", "tpu-provisioner"),
        ({}, {"project": "q", "name": "blue"}, "q", "blue"),
        ({"TPU_PROVISIONER_PROJECT": "r", "TPU_PROVISIONER_NAME": "blue"}, {}, "r", "blue"),
        ({"TPU_PROVISIONER_PROJECT": "r"}, {"project": "q"}, "q", "tpu-provisioner"),
    ],
)
def test_project_and_name_have_defaults(
    services: Callable[..., list[str]], environ: dict[str, str], choice: dict[str, str], project: str, name: str
) -> None:
    asked = services("tpu-provisioner", "blue")

    found, told = find(environ, **choice)

    assert asked == [f"GET v1/projects/{project}/locations/-/services?continue={page}" for page in ("", "x%20y")]
    assert told == [f"deployment: {name} of the project {project}"]
    assert (found["TPU_PROVISIONER_PROJECT"], found["TPU_PROVISIONER_NAME"]) == (project, name)
    assert read_environment(found)[0].limit_chips == 64


def test_a_variable_of_the_environment_wins(services: Callable[..., list[str]]) -> None:
    services("tpu-provisioner")

    found, _ = find({"TPU_PROVISIONER_LIMIT_CHIPS": "8", "TPU_PROVISIONER_LOGGING_ENDPOINT": ""})

    assert (found["TPU_PROVISIONER_LIMIT_CHIPS"], found["TPU_PROVISIONER_LOGGING_ENDPOINT"]) == ("8", "")


@pytest.mark.parametrize("cluster", ["second", OTHER])
@pytest.mark.parametrize("environ", [{}, {"TPU_PROVISIONER_CLUSTERS": CLUSTERS}], ids=["found", "described"])
def test_one_cluster_is_chosen(services: Callable[..., list[str]], environ: dict[str, str], cluster: str) -> None:
    asked = services("tpu-provisioner")

    found, _ = find(environ, cluster=cluster)

    assert list(json.loads(found["TPU_PROVISIONER_CLUSTERS"])) == [OTHER]
    assert bool(asked) == (not environ)


NOTHING = (
    "no deployment found: no Cloud Run service tpu-provisioner-provision in any region of the project of-gcloud "
    "(1 services are there); valid: another --project, or a deployment by docs/deploy.md first"
)


@pytest.mark.parametrize(
    ("names", "environ", "choice", "message"),
    [
        ((), {}, {}, NOTHING),
        (("blue", "red"), {}, {"project": "q"}, "(5 services are there); valid: --name=blue or --name=red"),
        (("blue",), {}, {"name": "blue", "cluster": "x"}, f"TPU_PROVISIONER_CLUSTERS; valid: {CLUSTER}, {OTHER}"),
    ],
)
def test_what_names_no_deployment_is_told_with_what_is_there(
    services: Callable[..., list[str]],
    names: tuple[str, ...],
    environ: dict[str, str],
    choice: dict[str, str],
    message: str,
) -> None:
    services(*names)

    with pytest.raises(BadInput) as caught:
        find(environ, **choice)
    assert message in str(caught.value)


ENVIRON = {
    "TPU_PROVISIONER_CLUSTERS": json.dumps({CLUSTER: {"endpoint": "https://a.gke.goog"}}),
    "TPU_PROVISIONER_CREDENTIALS": "anonymous",
}


def test_opening_a_deployment_asks_nobody_and_has_no_means_to_change_a_pool() -> None:
    opened = open_deployment(ENVIRON)
    ports = opened.ports

    assert list(opened.apis) == [CLUSTER]
    assert opened.open_logs is not None
    assert open_deployment(ENVIRON | {"TPU_PROVISIONER_LOGGING_ENDPOINT": ""}).open_logs is None
    assert (ports.adds, ports.takes) == (None, None)
    assert not hasattr(ports.pools, "create")
    assert not hasattr(ports.pools, "delete")
