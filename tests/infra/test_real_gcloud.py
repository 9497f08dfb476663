"""bootstrap.sh and both builds with the real gcloud, on the stand-in of Google's APIs.

Tier `tool`. Terraform, docker, kubectl and helm are pretended, and what Terraform makes that a
later step needs is made by gcloud.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from standins.google.tests.test_generic_gcloud import find_documents
from standins.kit.processes import running_stand_in
from tests.infra.bench import BUCKET, DESTROY, OUTPUTS, PROVISION, PUBLIC, Answer, Bench, open_bench
from tests.infra.real_gcloud import gcloud_on

pytestmark = [pytest.mark.tool, pytest.mark.slow, pytest.mark.timeout(600)]
PROJECT = "a-project"
DEPLOYER = f"serviceAccount:tpu-provisioner-deployer@{PROJECT}.iam.gserviceaccount.com"
TOPIC = OUTPUTS["topics"]["workload_events"]
TERRAFORM_MAKES = (
    f"pubsub topics create {TOPIC}",
    *(
        f"pubsub subscriptions create {each} --topic={TOPIC} --push-endpoint=https://x"
        for each in OUTPUTS["subscriptions"].values()
    ),
    *(
        f"scheduler jobs create http {each} --schedule=@hourly --uri=https://x"
        for each in OUTPUTS["scheduler_jobs"]
    ),
)
OWN_POOL = (
    "container node-pools create ours --cluster=tpu-cluster --location=us-east5 --machine-type=n2-standard-2 "
    "--node-labels=google.com/nodepool-manager=tpu-provisioner "
    f"--labels=tpu-provisioner-deployment={PROJECT}_tpu-provisioner"
)


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[str]:
    """The address of the stand-in."""
    (tmp_path / "logs").mkdir()
    parts = (f"--logs={tmp_path / 'logs'}", f"--apis={find_documents()}", "--pubsub", "--speed=2000")
    place = (f"--project={PROJECT}", "--location=us-east5", "--cluster=tpu-cluster")
    with running_stand_in(tmp_path, "standins.google", *place, *parts) as started:
        yield started.addresses["rest"]


@pytest.fixture
def bench(rest: str, tmp_path: Path) -> Iterator[Bench]:
    """A bench whose gcloud is the real one, and whose function answers each event."""
    with gcloud_on(rest, PROJECT, tmp_path) as gcloud:

        def run(words: list[str]) -> Answer:
            return (0, "nothing is to be done\n", "") if words[:2] == ["logging", "read"] else gcloud(words)

        with open_bench(tmp_path, run) as bench:
            yield bench


def read_policy(rest: str) -> set[tuple[str, str, str]]:
    answer = httpx.post(f"{rest}/apis/cloudresourcemanager/v1/projects/{PROJECT}:getIamPolicy", json={})
    return {
        (member, binding["role"], binding.get("condition", {}).get("expression", ""))
        for binding in answer.json().get("bindings", [])
        for member in binding["members"]
    }


def make(bench: Bench, *commands: str) -> None:
    assert bench.cloud.gcloud
    for each in commands:
        code, _, complaint = bench.cloud.gcloud(each.split())
        assert code == 0, complaint


def test_an_owner_prepares_twice_a_build_deploys_and_all_of_it_is_taken_back(bench: Bench, rest: str) -> None:
    bench.run("bootstrap.sh", "us-east5", "--yes", "--bucket=old-state")
    granted = read_policy(rest)
    bench.run("bootstrap.sh", "us-east5", "--yes", "--bucket=old-state")
    assert read_policy(rest) == granted
    roles = {role: expression for member, role, expression in granted if member == DEPLOYER}
    training = f"projects/{PROJECT}/locations/us-east5/clusters/training"
    assert f'resource.name == "{training}"' in roles["roles/container.admin"]
    assert not {each for each in roles if re.search("projectIamAdmin|roleAdmin|owner", each)}

    public = PUBLIC | {"_TF_STATE_BUCKET": "", "_TF_STATE_PREFIX": ""}
    make(bench, *TERRAFORM_MAKES)
    bench.build(PROVISION, **public)
    bench.build(PROVISION, **public)
    assert bench.read_variables()["ZONE"] == "us-east5-b"

    make(bench, OWN_POOL)
    assert "node pool ours" in bench.refuse(DESTROY)
    bench.build(DESTROY, _FORCE="true")
    assert bench.cloud.state == [BUCKET]
    pools = httpx.get(f"{rest}/v1/projects/{PROJECT}/locations/us-east5/clusters/tpu-cluster/nodePools").json()
    assert pools.get("nodePools", []) == []
    bench.build(DESTROY, _FORCE="true", _DELETE_ARTIFACTS="true", _DELETE_STATE="true")

    bench.run("bootstrap.sh", "us-east5", "--yes", "--remove")
    assert not [member for member, *_ in read_policy(rest) if ":tpu-provisioner-" in member]
