"""The field's inputs on a local cloud, side by side: what is bought, and what owners are told."""

from collections.abc import Iterator

import httpx
import pytest

from demo.stack import Stack
from tests.field.field_world import read_input
from tests.field.local_run import Answer, LocalRun, Row
from tests.lives.cloud import Cloud

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

MIXING, MISTAKES, PARTS = "mixing-slices.yaml", "mistaken-slices.yaml", "refused-parts.yaml"
QUEUED, POLICIES, LABELS = "queued-provisioning.yaml", "policies-and-partitions.yaml", "renamed-labels.yaml"
CLAIMS, RESOURCES, STORAGE = "claims.yaml", "unknown-resources.yaml", "storage-fuse.yaml"
V6E, HOST, CHIP = "ct6e-standard-4t us-east5-b", "1 ct6e-standard-4t us-east5-b", "1 ct6e-standard-1t us-east5-b"
LINE = "alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool"
ROWS = (
    Row(
        file=MIXING, workload="four-slices", told="JobSet slices_may_mix", words=LINE, pools=(f"2 {V6E} 2x4",) * 4
    ),
    Row(file=MIXING, workload="two-parts", told="JobSet slices_may_mix", words=LINE, pools=(f"2 {V6E} 2x4",) * 2),
    Row(file=MISTAKES, workload="no-chips", told="Job shape_unsupported", words="missing; 2x2 needs 4 chips"),
    Row(file=MISTAKES, workload="misspelt", told="Job resource_unknown", words="did you mean google.com/tpu?"),
    Row(file=MISTAKES, workload="old-resource", told="Job resource_unknown", words="did you mean google.com/tpu?"),
    Row(file=MISTAKES, workload="no-such-topology", told="Job shape_unsupported", words="(got '2x3')"),
    Row(file=MISTAKES, workload="no-such-type", told="Job shape_unsupported", words="(got 'tpu-v6e')"),
    Row(file=RESOURCES, workload="sky-fuse", told="Job resource_unknown", words="smarter-devices/fuse"),
    Row(
        file=POLICIES,
        workload="of-tpu7x",
        told="JobSet pool_absent",
        pools=("16 tpu7x-standard-4t us-east5-b team-4x4x4",),
    ),
    # Its policy does not exist, which is nobody else's refusal: others of the machine are served.
    Row(file=POLICIES, workload="of-v6e", told="Job request_invalid", words='"team-4x4"'),
    Row(file=QUEUED, workload="tpu-by-selector"),
    Row(file=QUEUED, workload="gpu-by-selector"),
    Row(file=QUEUED, workload="gpu-by-affinity"),
    Row(file=QUEUED, workload="gpu-by-request"),
    Row(file=QUEUED, workload="pool-by-name"),
    Row(file=STORAGE, workload="injected", told="Job pool_absent", pools=(f"{CHIP} 110 GB",)),
    Row(file=STORAGE, workload="without", told="Job pool_absent", pools=(CHIP,)),
    Row(file=LABELS, workload="zone", told="Pod pool_absent", pools=(f"up to {CHIP}",)),
    Row(file=LABELS, workload="both-names", told="Pod pool_absent", pools=(f"up to {CHIP}",)),
    Row(file=LABELS, workload="machine", told="Pod pool_absent", pools=("up to 1 ct6e-standard-8t us-east5-b",)),
    Row(file=LABELS, workload="two-zones", told="Pod selector_unsupported", words="another value"),
    Row(file=PARTS, workload="hosts-of-one-part", told="JobSet hosts_differ", words="slice of wrong"),
    Row(file=PARTS, workload="device-of-one-part", told="JobSet resource_unknown", words="smarter-devices/fuse"),
    Row(
        file=CLAIMS,
        workload="missing",
        told="JobSet claim_unbound",
        words="field-missing/datasets does not exist",
        comes="datasets",
        later=("4 ct6e-standard-4t us-east5-c 4x4",),
    ),
    Row(
        file=CLAIMS,
        workload="at-once",
        claim="open",
        told="Job claim_unbound",
        words="field-at-once/open is not bound to a volume yet",
        comes="open",
        later=("1 ct6e-standard-4t us-east5-c",),
    ),
    Row(file=CLAIMS, workload="second-part", claim="by-hand", told="JobSet claim_unbound", words="by-hand is not"),
    Row(
        file=CLAIMS, workload="bound", claim="weights", volume="pv-weights", told="Job pool_absent", pools=(HOST,)
    ),
)
"""A pool is its nodes, machine type and zone, then placement and boot disk as far as asked."""


@pytest.fixture(scope="module")
def run(stack: Stack) -> Iterator[LocalRun]:
    with Cloud(stack) as cloud:
        yield LocalRun(cloud, stack)


@pytest.fixture(scope="module")
def answers(run: LocalRun) -> Iterator[dict[str, Answer]]:
    """What became of all of them on one cluster."""
    yield run.play(ROWS)
    run.end(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.workload)
def test_a_workload_gets_its_pools_and_its_owner_the_reason(row: Row, answers: dict[str, Answer]) -> None:
    answer = answers[row.workload]

    assert answer.pods
    assert (answer.pools, answer.later) == (row.pools, row.later)
    assert row.told in {"", *answer.told}
    assert row.words in answer.told.get(row.told, "")


def test_a_quantity_of_an_unset_variable_makes_no_workload(run: LocalRun) -> None:
    """The API server refuses it, so there is nobody to tell; `plan` names it before."""
    body = read_input(MISTAKES, "unset-variable")

    refusal = run.cloud.kubernetes.post("/apis/batch/v1/namespaces/default/jobs", json=body)

    assert refusal.status_code == httpx.codes.BAD_REQUEST
    assert "quantit" in refusal.json()["message"]
