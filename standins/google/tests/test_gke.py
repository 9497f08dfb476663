"""What the fake GKE does beside what the product asks of it (`tests/contract`): in GKE's own words.

Google's own clients judge the form of the answers.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1, container_v1
from google.cloud.compute_v1.services.instance_group_managers.transports import InstanceGroupManagersRestTransport

from standins.google.gke.scenario import ScenarioError, parse_scenario
from standins.google.tests.fakegke_worlds import (
    LOCATION,
    PARENT,
    PROJECT,
    ZONE,
    InProcessWorld,
    ServedWorld,
    serving_world,
    slice_pool,
)

Pool = container_v1.NodePool.Status
LONG = 5_000.0
MISSING = "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
ZONAL = f"projects/{PROJECT}/locations/{ZONE}"


@pytest.fixture
def served() -> Iterator[ServedWorld]:
    with serving_world() as world:
        yield world


def read_operation(world: ServedWorld, operation: Any) -> Any:
    name = f"projects/{PROJECT}/locations/{LOCATION}/operations/{operation.name}"
    return world.client.get_operation(name=name)


def test_operations_are_named_and_linked_as_gke_does_it(served: ServedWorld) -> None:
    operation = served.create()
    served.gke.add_cluster(PROJECT, ZONE, "zonal")
    zonal = served.client.create_node_pool(parent=f"{ZONAL}/clusters/zonal", node_pool=slice_pool())

    assert re.fullmatch(r"operation-\d{13}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", operation.name)
    assert re.search(rf"/projects/\d+/locations/{LOCATION}/operations/{operation.name}$", operation.self_link)
    assert re.search(
        rf"/projects/\d+/locations/{LOCATION}/clusters/alpha/nodePools/pool-1$", operation.target_link
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", operation.start_time)
    assert served.pool().self_link.endswith(f"{PARENT}/nodePools/pool-1")
    assert (zonal.zone, zonal.location) == (ZONE, "")
    assert f"/zones/{ZONE}/clusters/zonal/nodePools/pool-1" in zonal.target_link


def test_a_failed_create_says_why_in_operation_and_pool_and_a_deleted_pool_is_gone(served: ServedWorld) -> None:
    served.add_fault(switch="outcome", kind="stockout")
    operation = served.create()
    served.advance(LONG)
    done = read_operation(served, operation)

    assert (done.status.name, done.error.code) == ("DONE", 8)
    assert "Atomic resize failed with [GCE_STOCKOUT]" in done.status_message
    assert (done.detail, done.error.message in done.status_message) == (done.status_message, True)
    assert [condition.canonical_code for condition in done.cluster_conditions] == [8, 8]
    assert (served.pool().status, served.pool().conditions[0].code.name) == (Pool.ERROR, "GCE_STOCKOUT")
    served.client.delete_node_pool(name=f"{PARENT}/nodePools/pool-1")
    served.advance(LONG)
    assert served.client.list_node_pools(parent=PARENT).node_pools == []


def test_clusters_can_be_read(served: ServedWorld) -> None:
    served.create()
    served.advance(LONG)

    cluster = served.client.get_cluster(name=PARENT)
    assert (cluster.location, [pool.name for pool in cluster.node_pools]) == (LOCATION, ["pool-1"])
    assert cluster.current_node_count == 4
    assert [
        each.name for each in served.client.list_clusters(parent=f"projects/{PROJECT}/locations/-").clusters
    ] == ["alpha"]


@pytest.mark.parametrize(
    ("method", "request_fields", "code", "words"),
    [
        ("update_node_pool", {"machine_type": "x"}, 501, "UpdateNodePool"),
        ("set_node_pool_size", {"node_count": 3}, 501, "manual resize is not supported"),
        ("set_node_pool_autoscaling", {"autoscaling": {"enabled": True, "min_node_count": 2}}, 400, "the minimum"),
    ],
)
def test_what_is_not_played_or_wrong_is_refused_in_words(
    served: ServedWorld, method: str, request_fields: dict[str, Any], code: int, words: str
) -> None:
    served.create()
    served.advance(LONG)

    with pytest.raises(GoogleAPICallError, match=words) as refusal:
        getattr(served.client, method)({"name": f"{PARENT}/nodePools/pool-1", **request_fields})
    assert refusal.value.code == code


def test_googles_client_reads_all_calls_about_groups(served: ServedWorld) -> None:
    served.add_fault(switch="outcome", kind="stockout")
    served.create(initial_node_count=0, autoscaling={"enabled": True, "max_node_count": 4})
    served.advance(30)
    options: dict[str, Any] = {"url_scheme": "http", "credentials": AnonymousCredentials()}  # type: ignore[no-untyped-call]
    transport = InstanceGroupManagersRestTransport(host=served.rest.removeprefix("http://"), **options)
    client = compute_v1.InstanceGroupManagersClient(transport=transport)
    name = served.pool().instance_group_urls[0].rpartition("/")[2]
    at = {"project": PROJECT, "zone": ZONE, "instance_group_manager": name}
    assert client.resize(**at, size=4).name.startswith("operation-")
    served.advance(20)

    group = client.get(**at)
    assert (group.target_size, group.target_size_policy.mode) == (4, "BULK")
    bulk = group.status.bulk_instance_operation
    assert (bulk.in_progress, bulk.last_progress_check.error.errors[0].code) == (True, MISSING)
    rows = list(client.list_managed_instances(**at))
    assert [each.last_attempt.errors.errors[0].code for each in rows] == [MISSING] * 4
    errors = list(client.list_errors(**at))
    assert {(each.instance_action_details.action, each.error.code) for each in errors} == {("CREATING", MISSING)}
    resource: Any = {"instances": [each.instance for each in rows]}
    client.delete_instances({**at, "instance_group_managers_delete_instances_request_resource": resource})
    assert client.get(**at).target_size == 0


def test_machines_are_finite_taken_back_and_given_to_the_pool_that_waits() -> None:
    changes = [{"at": 6_000, "nodes": 0}, {"at": 9_000, "nodes": 4}]
    world = InProcessWorld(capacity=[{"tier": "spot", "nodes": 4, "changes": changes}])
    seen = []

    for name, until in (("first", 1_000), ("second", 5_000), ("", 7_000), ("", 11_000)):
        if name:
            world.create(slice_pool(name))
        world.advance(until - world.clock.now())
        seen.append({row["pool"]: (row["status"], row["nodes"]) for row in world.gke.pools()})

    assert seen == [
        {"first": ("RUNNING", 4)},
        {"first": ("RUNNING", 4), "second": ("ERROR", 0)},
        {"first": ("RUNNING", 0), "second": ("ERROR", 0)},
        {"first": ("RUNNING", 4), "second": ("ERROR", 0)},
    ]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"capacty": []}, "capacty"),
        ({"faults": {}}, "a list of faults"),
        ([{"switch": "outage"}], "valid switches"),
        ([{"switch": "outcome", "kind": "bad"}], "kind"),
        ([{"switch": "outcome", "nth": 0}], ">= 1"),
        ({"capacity": [{"nodes": 1, "chips": 4}]}, r"capacity\[0\]"),
        ({"capacity": [{"zone": "us-east5-b"}]}, "one unit"),
        ({"capacity": [{"nodes": -1}]}, ">= 0"),
        ({"capacity": [{"nodes": 1, "changes": [{"at": 9, "chips": 1}]}]}, "one unit"),
        (
            {"capacity": [{"nodes": 1, "changes": [{"at": 9, "nodes": 1}, {"at": 9, "nodes": 2}]}]},
            "seconds that grow",
        ),
        ({"capacity": [{"nodes": 1, "machine_type": "ct6e-standard-5t"}]}, "a machine type of GKE"),
        ({"capacity": [{"nodes": 1, "zone": "us-east5"}]}, "such as us-east5-b"),
        ({"capacity": [{"nodes": 1, "tier": "spott"}]}, "one of on-demand"),
        ({"capacity": [{"nodes": 1, "tier": "spot", "reservation": "r"}]}, "of a reservation"),
    ],
)
def test_a_scenario_that_cannot_be_played_names_what_is_wrong(wrong: object, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refusal:
        parse_scenario(wrong)
    assert isinstance(refusal.value, ScenarioError) or "switch" in str(refusal.value)
