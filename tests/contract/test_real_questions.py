"""The questions of ``tests/real`` get the assumed answers from the fake GKE, and leave nothing."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cli.access.connections import open_deployment
from shared.settings import PREFIX
from standins.google.tests.fakegke_worlds import serving_google
from tests.builders import CLUSTER
from tests.contract.gke_world import ask
from tests.real import test_google as questions
from tests.real.lab import ACCEPTED, Lab

TPU, ZONE, FOREIGN = "ct6e-standard-4t:4x4", "us-east5-b", "of-another"
NOT_ASKED = {
    f"test_{name}" for name in ("audit_entry", "push", "ingress", "user_name", "metric_names", "stockout")
}
"""They need a deployment, or half an hour of a slice."""
ASKED = sorted(name for name in vars(questions) if name.startswith("test_") and name not in NOT_ASKED)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A fake whose clock the test moves, in which another person has a pool."""
    with serving_google(project="p", clusters=["c"], manual_clock=True, machines_everywhere=True) as google:
        body = {"nodePool": {"name": FOREIGN, "initialNodeCount": 1, "config": {"machineType": "e2-small"}}}
        ask("POST", f"{google.ports['rest']}/v1/{CLUSTER}/nodePools", body)
        yield google.ports["rest"]


def open_lab(url: str, *, tpu: str = "", run: str = "test") -> Lab:
    settings = {
        "CLUSTERS": f'{{"{CLUSTER}": {{"endpoint": "https://unknown"}}}}',
        "CREDENTIALS": "anonymous",
        "GKE_ENDPOINT": url,
        "LOGGING_ENDPOINT": "",
    }
    time = [1_800_000_000.0]

    def sleep(seconds: float) -> None:
        time[0] += seconds
        ask("POST", f"{url}/admin/clock", {"advance_seconds": seconds})

    deployment = open_deployment({f"{PREFIX}{name}": value for name, value in settings.items()})
    return Lab(deployment, CLUSTER, run, tpu, ZONE, now=lambda: time[0], sleep=sleep)


@pytest.fixture
def lab(url: str) -> Iterator[Lab]:
    made = open_lab(url, tpu=TPU)
    made.deadline = made.now() + 600
    yield made
    ask("DELETE", f"{url}/admin/faults")
    made.clean()
    assert list_pools(url) == [FOREIGN]


def list_pools(url: str) -> list[str]:
    return [each["pool"] for each in ask("GET", f"{url}/admin/pools")["pools"]]


@pytest.mark.parametrize("name", ASKED)
def test_each_assumed_answer_is_expected(lab: Lab, name: str) -> None:
    cast("Callable[[Lab], None]", getattr(questions, name))(lab)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("test_create_twice_at_once", {"switch": "dup_create_inflight"}),
        ("test_while_deleting", {"switch": "create_while_stopping"}),
        ("test_while_creating", {"switch": "get_404_after_create", "count": 1}),
        ("test_appears", {"switch": "stale_list", "seconds": 1400}),
        ("test_appears", {"switch": "read_lag", "seconds": 200}),
        ("test_operations_at_once", {"switch": "max_running_ops", "value": 7}),
        ("test_bad_node_count", {"switch": "bad_node_count"}),
    ],
)
def test_each_other_answer_fails(lab: Lab, url: str, name: str, fault: dict[str, Any]) -> None:
    ask("POST", f"{url}/admin/faults", fault)
    lab.deadline = lab.now() + 300  # longer than what each of them waits for

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(questions, name)(lab)


def test_the_pools_of_a_run_that_was_killed_are_deleted_by_the_next_and_no_others(url: str) -> None:
    killed, other = open_lab(url), open_lab(url, run="other")
    left, kept = killed.new_name(), other.new_name()
    assert (killed.create(left), other.create(kept)) == (ACCEPTED, ACCEPTED)

    open_lab(url).clean()

    assert list_pools(url) == [FOREIGN, kept]
    other.clean()
    assert list_pools(url) == [FOREIGN]


def test_a_slice_that_costs_more_than_it_may_is_not_made(lab: Lab, url: str) -> None:
    with pytest.raises(pytest.skip.Exception, match="--dollars allows 0"):
        questions.test_stockout(lab, SimpleNamespace(dollars="0"))
    assert list_pools(url) == [FOREIGN]
