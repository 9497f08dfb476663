"""What Terraform needs beside node pools: sizes by instance group, and workload policies."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from standins.fakegke.tests.fakegke_worlds import LOCATION, PROJECT, ZONE, ServedWorld

POLICY: dict[str, Any] = {
    "name": "mine-2x2x2",
    "description": "Puts the hosts of one slice together.",
    "workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x2x2"},
}
IRONWOOD: dict[str, Any] = {
    "initial_node_count": 2,
    "config": {"machine_type": "tpu7x-standard-4t"},
    "placement_policy": {"policy_name": "mine-2x2x2", "tpu_topology": "2x2x2"},
}
"""A slice of two hosts, placed by that policy."""


class ComputeClient:
    """The paths of Compute Engine of a served fake."""

    def __init__(self, served: ServedWorld) -> None:
        self.root = f"{served.rest}/compute/v1/projects/{PROJECT}"
        self.policies = f"{self.root}/regions/{LOCATION}/resourcePolicies"

    def make(self, **changes: Any) -> httpx.Response:
        return httpx.post(self.policies, json=POLICY | changes)

    def groups(self, served: ServedWorld, zone: str = ZONE, project: str = PROJECT) -> dict[str, int]:
        """Return the sizes of this test's groups by the last part of their names."""
        url = f"{served.rest}/compute/v1/projects/{project}/zones/{zone}/instanceGroupManagers"
        items = httpx.get(url).raise_for_status().json()["items"]
        return {item["selfLink"]: item["targetSize"] for item in items if served.cluster in item["name"]}


@pytest.fixture
def compute(served: ServedWorld) -> Iterator[ComputeClient]:
    client = ComputeClient(served)
    yield client
    for policy in httpx.get(client.policies).json()["items"]:
        httpx.delete(f"{client.policies}/{policy['name']}")


def _reason(refused: httpx.Response) -> str:
    """Return why Compute Engine refuses; it writes no canonical code."""
    assert "status" not in refused.json()["error"]
    return str(refused.json()["error"]["errors"][0]["reason"])


def test_a_pools_instance_group_has_as_many_instances_as_it_has_nodes(
    served: ServedWorld, compute: ComputeClient
) -> None:
    served.create()
    assert list(compute.groups(served).values()) == [0]
    served.advance(5_000)

    assert compute.groups(served) == {served.pool().instance_group_urls[0]: 4}
    assert compute.groups(served, zone="us-east5-a") == {}
    assert compute.groups(served, project="another") == {}


def test_a_policy_is_kept_as_given_until_it_is_deleted(compute: ComputeClient) -> None:
    operation = compute.make().raise_for_status().json()
    path = operation["selfLink"].removeprefix("https://www.googleapis.com/compute/v1/projects/demo")
    waited = httpx.post(f"{compute.root}{path}/wait").json()
    assert (operation["status"], waited["status"], waited["name"]) == ("DONE", "DONE", operation["name"])
    assert httpx.get(f"{compute.root}{path}").json() == waited

    again = compute.make()
    assert (again.status_code, _reason(again)) == (409, "alreadyExists")
    kept = httpx.get(f"{compute.policies}/mine-2x2x2").json()
    assert {key: kept[key] for key in POLICY} == POLICY
    assert [each["name"] for each in httpx.get(compute.policies).json()["items"]] == ["mine-2x2x2"]

    assert httpx.delete(f"{compute.policies}/mine-2x2x2").json()["status"] == "DONE"
    gone = httpx.get(f"{compute.policies}/mine-2x2x2")
    assert (gone.status_code, _reason(gone)) == (404, "notFound")
    assert "projects/demo/regions/us-east5/resourcePolicies/mine-2x2x2" in gone.json()["error"]["message"]


def test_a_slice_can_be_placed_by_a_policy_only_once_it_is_made(
    served: ServedWorld, compute: ComputeClient
) -> None:
    assert "No such resource policy exists" in served.refusal(lambda: served.create(**IRONWOOD)).text

    compute.make().raise_for_status()
    served.create(**IRONWOOD)
    served.advance(5_000)

    assert served.pool().status.name == "RUNNING"
    refused = httpx.delete(f"{compute.policies}/mine-2x2x2")
    assert (refused.status_code, _reason(refused)) == (400, "badRequest")
    assert refused.json()["error"]["message"].endswith("is already being used by 'pool-1'")

    served.delete()
    served.advance(5_000)
    assert httpx.delete(f"{compute.policies}/mine-2x2x2").status_code == 200


def test_a_policy_stands_for_its_own_topology(served: ServedWorld, compute: ComputeClient) -> None:
    compute.make(workloadPolicy={"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x2x4"}).raise_for_status()

    refused = served.refusal(lambda: served.create(**IRONWOOD))
    assert refused.code == "INVALID_ARGUMENT"
    assert "2x2x4" in refused.text


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "No_Name"}, "resource.name"),
        ({"workloadPolicy": {"type": "HIGH_AVAILABILITY"}}, "resource.workloadPolicy.type"),
        ({"workloadPolicy": {"type": "HIGH_THROUGHPUT"}}, "resource.workloadPolicy.acceleratorTopology"),
        ({"workloadPolicy": None}, "resource.workloadPolicy.type"),
    ],
)
def test_an_unusable_policy_is_refused_by_field(
    compute: ComputeClient, change: dict[str, Any], field: str
) -> None:
    refused = compute.make(**change)

    assert (refused.status_code, _reason(refused)) == (400, "badRequest")
    assert field in refused.json()["error"]["message"]


def test_a_tpu_pool_says_that_multithreading_is_off(served: ServedWorld) -> None:
    served.created()

    assert served.pool().config.advanced_machine_features.threads_per_core == 1
