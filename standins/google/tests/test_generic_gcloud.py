"""The real gcloud against GKE and the APIs that only their discovery documents describe, at once.

Tier `tool`: needs gcloud, and the documents of the package `google-api-python-client`. What the
build's scripts ask of gcloud is run in `tests/infra`.
"""

import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from standins.google.tests.fakegke_worlds import fake_process
from tests.infra.real_gcloud import gcloud_on

pytestmark = [pytest.mark.tool, pytest.mark.slow, pytest.mark.timeout(900)]
VARIABLE = "DISCOVERY_DOCUMENTS"
REMEDY = f"pip install --no-deps google-api-python-client, or set {VARIABLE} to a folder of them"
Gcloud = Callable[[list[str]], tuple[int, str, str]]
AT = "--location=us-east5"
ON_ALPHA = f"--cluster=alpha {AT}"
SLICE = "--node-locations=us-east5-b --num-nodes=4 --machine-type=ct6e-standard-4t --tpu-topology=4x4"
COMMANDS = (
    ("container clusters list", "alpha"),
    (f"container node-pools create pool-1 {ON_ALPHA} {SLICE} --spot --node-labels=a=b", "Created"),
    (f"container node-pools describe pool-1 {ON_ALPHA} --format=value(status,config.labels)", "RUNNING"),
    (f"container node-pools list {ON_ALPHA} --format=json", '"a": "b"'),
    (f"container node-pools delete pool-1 {ON_ALPHA}", "Deleted"),
    ("container operations list --region=us-east5", "DELETE_NODE_POOL"),
    ("compute networks create net --subnet-mode=custom", "Created"),
)
REFUSED = (
    ("pubsub subscriptions modify-push-config absent --push-endpoint=", "not found"),
    (f"scheduler jobs pause absent {AT}", "was not found"),
    (f"container node-pools delete absent {ON_ALPHA}", "Not found"),
    (f"container node-pools create sold-out {ON_ALPHA} {SLICE}", "GCE_STOCKOUT"),
)


def find_documents() -> Path:
    """Return the folder of the documents; without one the test fails, and says how to go on."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    package = importlib.util.find_spec("googleapiclient")
    if package is None or package.origin is None:
        pytest.fail(f"no discovery documents: {REMEDY}")
    return Path(package.origin).parent / "discovery_cache" / "documents"


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("google")
    with fake_process(folder, "--speed=600", "--pubsub", f"--apis={find_documents()}") as started:
        yield started.addresses["rest"]


@pytest.fixture(scope="module")
def gcloud(rest: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gcloud]:
    with gcloud_on(rest, "demo", tmp_path_factory.mktemp("gcloud")) as gcloud:
        yield gcloud


def test_gcloud_makes_reads_and_deletes(gcloud: Gcloud) -> None:
    for command, words in COMMANDS:
        code, answer, complaint = gcloud(command.split(" "))
        assert code == 0, (command, complaint)
        assert words in answer + complaint, (command, answer, complaint)


def test_what_was_not_made_is_not_there_and_a_stockout_is_told(rest: str, gcloud: Gcloud) -> None:
    httpx.post(f"{rest}/admin/faults", json={"switch": "outcome"}).raise_for_status()
    for command, words in REFUSED:
        code, _, complaint = gcloud(command.split(" "))
        assert (code, words in complaint) == (1, True), (command, complaint)


def test_what_was_made_is_refused_a_second_time_and_a_wrong_field_names_itself(rest: str) -> None:
    topic = f"{rest}/apis/pubsub/v1/projects/demo/topics/twice"

    assert [httpx.put(topic, json={}).status_code for _ in range(2)] == [200, 409]
    refused = httpx.put(f"{topic}-more", json={"label": {}})
    assert refused.status_code == 400
    assert 'Unknown name "label": Cannot find field.' in refused.json()["error"]["message"]
    assert httpx.get(f"{rest}/apis/pubsub/v1/nowhere").status_code == 404
