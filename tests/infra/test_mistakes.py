"""Each row of the table of mistakes in docs/deploy.md is run, and answered as it says.

After each, the pretended cloud is as the row says it remains: no build fails for ever, and nothing
is taken away unasked.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from infra.build.queueing import find_sum
from tests.infra.bench import DESTROY, PROVISION, PUBLIC, ROOT, Bench
from tests.infra.pretended_cloud import CLUSTER
from tests.infra.test_check_plan import a_change, a_deployment

STATE = {name: PUBLIC[name] for name in ("_TF_STATE_BUCKET", "_TF_STATE_PREFIX")}
POOL = {
    "name": "ours",
    "config": {
        "labels": {"google.com/nodepool-manager": "tpu-provisioner"},
        "resourceLabels": {"tpu-provisioner-deployment": "a-project_tpu-provisioner"},
    },
}
POD = {"metadata": {"namespace": "gke-prod", "name": "web"}, "spec": {"nodeName": "n"}}


def read_rows() -> list[list[str]]:
    page = (ROOT / "docs/deploy.md").read_text()
    table = page[page.index("| mistake | answer |") :].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def provision(**more: str) -> Callable[[Bench], str]:
    return lambda bench: bench.refuse(PROVISION, **(PUBLIC | more))


def destroy(**more: str) -> Callable[[Bench], str]:
    return lambda bench: bench.refuse(DESTROY, **(STATE | more))


def with_world(run: Callable[[Bench], str], **world: Any) -> Callable[[Bench], str]:
    def act(bench: Bench) -> str:
        vars(bench.cloud).update(**world)
        return run(bench)

    return act


def plan(*changes: dict[str, Any]) -> Callable[[Bench], str]:
    return with_world(provision(), plan=list(changes))


def with_script(script: str, *words: str, **variables: str) -> Callable[[Bench], str]:
    return lambda bench: bench.run(script, *words, code=1, **variables).stderr


def ask_unknown_version(_bench: Bench) -> str:
    with pytest.raises(ValueError, match="checksum") as refusal:
        find_sum("kueue", "v9.9.9")
    return str(refusal.value)


def remove_project(bench: Bench) -> str:
    place = bench.folder / "gs/a-project-tpu-provisioner-state/tpu-provisioner"
    place.mkdir(parents=True)
    (place / "default.tfstate").touch()
    return bench.run("bootstrap.sh", "us-east5", "--yes", "--remove", code=1).stderr


def lose_grant() -> dict[str, Any]:
    change = a_change("google_storage_bucket_iam_member", "", "delete")
    change["change"]["before"] = {"member": "principal://x/subject/ns/research/sa/cloud-tpu-sa"}
    return change


FRESH: dict[str, Callable[[Bench], str]] = {
    "the project was never prepared": provision(_TF_STATE_BUCKET="nowhere"),
    "`gcloud builds submit` without `--region`": with_script("build/image.sh", LOCATION="global"),
    "a misspelt substitution": with_script("build/image.sh", _CLUSTERNAME="x"),
    "a misspelt variable in the file": with_world(provision(), warns="Warning: Value for undeclared variable"),
    "a name that is too long": provision(_NAME="x" * 21),
    "an image without its digest": provision(_EXPORTER_IMAGE="ghcr.io/o/x:0.2.0"),
    "a version that nobody has checked": ask_unknown_version,
    "the project is cleaned up too early": remove_project,
}
"""What is said where nothing is deployed."""
DEPLOYED: dict[str, Callable[[Bench], str]] = {
    "another cluster under the same name": plan(a_deployment(16, "p n us-east5 us-east5/second")),
    "the limit is forgotten or raised": plan(a_deployment(256)),
    "the address for alerts is forgotten": plan(
        a_change("google_monitoring_notification_channel", "team", "delete")
    ),
    "private nodes are turned off": plan(a_change("google_compute_router_nat", "training-nat", "delete")),
    "a topic or subscription would be replaced": plan(
        a_change("google_pubsub_topic", "tpu-provisioner-workload-events", "delete", "create")
    ),
    "fewer or smaller CPU nodes": plan(
        a_change("google_container_node_pool", "cpu-node-pool", "update", node_count=1)
    ),
    "a namespace is left out": plan(lose_grant()),
    "a change that replaces the cluster": plan(a_change("google_container_cluster", "c", "delete", "create")),
    "another build runs, or one was killed in Terraform": with_world(
        provision(), refusals={"terraform plan": "Error: Error acquiring the state lock"}
    ),
    "the cluster has another deployment's exporter": with_world(
        provision(), topic_there="projects/p/topics/other"
    ),
    "a build was killed in Helm": lambda bench: bench.build(PROVISION, **PUBLIC),
    "the function does not answer": with_world(provision(), refusals={"gcloud logging read": "none"}),
    "destroy while a slice runs": with_world(destroy(), pools=[POOL]),
    "destroy while a person's pod runs": with_world(destroy(), pods=[POD]),
    "destroy with a plan only": with_script("build/stop.sh", _PLAN_ONLY="true"),
    "destroy with a wrong word": destroy(_FORCE="yes"),
    "destroy may not delete something": with_world(destroy(), refusals={"terraform destroy": "Error 403"}),
    "the state is to go before the bucket": destroy(_DELETE_STATE="true"),
}
"""What is said to one that stands."""
HALF = {"destroy after a first build that failed": destroy()}
CHANGES = {
    "destroy may not delete something",
    "the state is to go before the bucket",
    "a build was killed in Helm",
}


def answer_of(mistake: str) -> str:
    (row,) = [each for each in read_rows() if each[0] == mistake]
    return re.sub(r"^`|`$", "", row[1])


def test_the_table_has_each_mistake_once() -> None:
    names = [row[0] for row in read_rows()]

    assert sorted(names) == sorted([*FRESH, *DEPLOYED, *HALF])
    assert len(names) >= 20


@pytest.mark.parametrize("mistake", FRESH)
def test_a_mistake_before_anything_is_deployed(mistake: str, bench: Bench) -> None:
    assert answer_of(mistake) in FRESH[mistake](bench)
    assert (bench.state["state"], bench.state["installed"]) == ([], [])


@pytest.mark.parametrize("mistake", sorted(DEPLOYED, key=lambda each: each in CHANGES))
def test_a_mistake_leaves_what_stands(mistake: str, deployed: Bench) -> None:
    vars(deployed.cloud).update(plan=[], refusals={}, pools=[], pods=[], topic_there="")
    before = deployed.state
    assert answer_of(mistake) in DEPLOYED[mistake](deployed)

    same = ("state", "installed", "paused", "objects")
    if mistake not in CHANGES:
        assert {each: deployed.state[each] for each in same} == {each: before[each] for each in same}


def test_a_first_build_that_failed_is_not_destroyed_blindly(bench: Bench) -> None:
    """Terraform's state has a cluster then, and no outputs."""
    vars(bench.cloud).update(state=[CLUSTER], outputs={})
    (mistake,) = HALF
    assert answer_of(mistake) in HALF[mistake](bench)
