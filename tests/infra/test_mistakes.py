"""Each row of the table of mistakes in docs/deploy.md is run, and answered as it says.

After each, the pretended cloud is as the row says it remains: no build fails for ever, and nothing
is taken away unasked.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from infra.build.queueing import find_sum
from tests.infra.bench import CLUSTER, DESTROY, PROVISION, PUBLIC, ROOT, STATE, Bench, a_pool
from tests.infra.test_build_programs import a_change, a_deployment

POD = {"metadata": {"namespace": "gke-prod", "name": "web"}, "spec": {"nodeName": "n"}}
LOST_GRANT = a_change("google_storage_bucket_iam_member", "", "delete")
LOST_GRANT["change"]["before"] = {"member": "principal://x/subject/ns/research/sa/cloud-tpu-sa"}
Act = Callable[[Bench], str]


def read_answers() -> dict[str, str]:
    """Return what the page says is answered to each mistake."""
    page = (ROOT / "docs/deploy.md").read_text()
    table = page[page.index("| mistake | answer |") :].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return {mistake: answer.removeprefix("`").removesuffix("`") for mistake, answer, *_ in rows}


def fail(path: Path, substitutions: dict[str, str], world: dict[str, Any] | None = None, **more: str) -> Act:
    """Build on a cloud that is changed before, with further substitutions; it must fail."""

    def act(bench: Bench) -> str:
        vars(bench.cloud).update(world or {})
        return bench.refuse(path, **(substitutions | more))

    return act


provision, destroy = partial(fail, PROVISION, PUBLIC), partial(fail, DESTROY, STATE)


def plan(change: dict[str, Any]) -> Act:
    return provision({"plan": [change]})


def run(script: str, *words: str, **variables: str) -> Act:
    return lambda bench: bench.run(script, *words, code=1, **variables).stderr


def ask_unknown_version(_bench: Bench) -> str:
    with pytest.raises(ValueError, match="checksum") as refusal:
        find_sum("kueue", "v9.9.9")
    return str(refusal.value)


def remove_project(bench: Bench) -> str:
    place = bench.folder / "gs/a-project-tpu-provisioner-state/tpu-provisioner"
    place.mkdir(parents=True)
    (place / "default.tfstate").touch()
    return run("bootstrap.sh", "us-east5", "--yes", "--remove")(bench)


FRESH: dict[str, Act] = {
    "the project was never prepared": provision(_TF_STATE_BUCKET="nowhere"),
    "`gcloud builds submit` without `--region`": run("build/image.sh", LOCATION="global"),
    "a misspelt substitution": run("build/image.sh", _CLUSTERNAME="x"),
    "a misspelt variable in the file": provision({"warns": "Warning: Value for undeclared variable"}),
    "a name that is too long": provision(_NAME="x" * 21),
    "an image without its digest": provision(_EXPORTER_IMAGE="ghcr.io/o/x:0.2.0"),
    "a version that nobody has checked": ask_unknown_version,
    "the project is cleaned up too early": remove_project,
    # Terraform's state has a cluster then, and no outputs.
    "destroy after a first build that failed": destroy({"state": [CLUSTER], "outputs": {}}),
}
"""What is said where no deployment stands."""
DEPLOYED: dict[str, Act] = {
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
    "a namespace is left out": plan(LOST_GRANT),
    "a change that replaces the cluster": plan(a_change("google_container_cluster", "c", "delete", "create")),
    "another build runs, or one was killed in Terraform": provision(
        {"refusals": {"terraform plan": "Error: Error acquiring the state lock"}}
    ),
    "the cluster has another deployment's exporter": provision({"topic_there": "projects/p/topics/other"}),
    "the function does not answer": provision({"refusals": {"gcloud logging read": "none"}}),
    "destroy while a slice runs": destroy({"pools": [a_pool("ours")]}),
    "destroy while a person's pod runs": destroy({"pods": [POD]}),
    "destroy with a plan only": run("build/stop.sh", _PLAN_ONLY="true"),
    "destroy with a wrong word": destroy(_FORCE="yes"),
}
"""What is said to one that stands, and stays as it is."""
CHANGES: dict[str, Act] = {
    "destroy may not delete something": destroy({"refusals": {"terraform destroy": "Error 403"}}),
    "the state is to go before the bucket": destroy(_DELETE_STATE="true"),
    "a build was killed in Helm": lambda bench: bench.build(PROVISION, **PUBLIC),
}
"""What is said to one that the build changes."""
ANSWERS = read_answers()


def test_each_mistake_of_the_page_is_run() -> None:
    assert sorted(ANSWERS) == sorted([*FRESH, *DEPLOYED, *CHANGES])
    assert len(ANSWERS) >= 20


@pytest.mark.parametrize("mistake", FRESH)
def test_a_mistake_before_anything_is_deployed(mistake: str, bench: Bench) -> None:
    assert ANSWERS[mistake] in FRESH[mistake](bench)
    assert set(bench.cloud.state) <= {CLUSTER}
    assert bench.cloud.installed == []


@pytest.mark.parametrize("mistake", [*DEPLOYED, *CHANGES])
def test_a_mistake_leaves_what_stands(mistake: str, deployed: Bench) -> None:
    vars(deployed.cloud).update(plan=[], refusals={}, pools=[], pods=[], topic_there="")
    before = deployed.state
    assert ANSWERS[mistake] in (DEPLOYED | CHANGES)[mistake](deployed)

    if mistake in DEPLOYED:
        same = ("state", "installed", "paused", "objects")
        assert {each: deployed.state[each] for each in same} == {each: before[each] for each in same}
