"""Google's own client of Compute Engine judges the form of the groups' answers."""

from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1, container_v1
from google.cloud.compute_v1.services.instance_group_managers.transports import InstanceGroupManagersRestTransport
from google.cloud.compute_v1.services.region_instance_group_managers.transports import (
    RegionInstanceGroupManagersRestTransport,
)

from standins.google.tests.fakegke_worlds import EMPTY, LOCATION, PROJECT, ZONE, ServedWorld

PLACES = (f"zones/{ZONE}", f"regions/{LOCATION}")
STOCKOUT = "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"


def create_empty(served: ServedWorld) -> str:
    """Create a pool without nodes, and return the name of its group."""
    operation = served.create(**EMPTY)
    served.advance(30)
    assert served.operation(operation).error.code == 0
    assert served.pool().status == container_v1.NodePool.Status.RUNNING
    return str(served.pool().instance_group_urls[0].rsplit("/", 1)[-1])


def sold_out(served: ServedWorld) -> None:
    """Let Compute Engine make no instance of any pool."""
    served.add_fault(switch="outcome", kind="stockout")


def _judges(served: ServedWorld) -> dict[str, Any]:
    """Return Google's own clients of both places, pointed at the fake."""
    host = served.rest.removeprefix("http://")
    options: dict[str, Any] = {"host": host, "url_scheme": "http", "credentials": AnonymousCredentials()}  # type: ignore[no-untyped-call]
    return {
        PLACES[0]: compute_v1.InstanceGroupManagersClient(transport=InstanceGroupManagersRestTransport(**options)),
        PLACES[1]: compute_v1.RegionInstanceGroupManagersClient(
            transport=RegionInstanceGroupManagersRestTransport(**options)
        ),
    }


@pytest.mark.parametrize("place", PLACES)
def test_googles_client_reads_all_calls(served: ServedWorld, place: str) -> None:
    sold_out(served)
    name = create_empty(served)
    client, (word, value) = _judges(served)[place], place.split("/")
    at = {"project": PROJECT, word.removesuffix("s"): value, "instance_group_manager": name}
    resized = client.resize(**at, size=4)
    assert resized.name.startswith("operation-")
    served.advance(20)

    group = client.get(**at)
    assert (group.target_size, group.target_size_policy.mode, group.current_actions.creating) == (4, "BULK", 4)
    bulk = group.status.bulk_instance_operation
    assert (bulk.in_progress, bulk.last_progress_check.error.errors[0].code) == (True, STOCKOUT)
    assert group.status.current_instance_statuses.non_existent == 4
    rows = list(client.list_managed_instances(**at))
    assert [each.last_attempt.errors.errors[0].code for each in rows] == [STOCKOUT] * 4
    errors = list(client.list_errors(**at))
    assert {each.instance_action_details.action for each in errors} == {"CREATING"}
    assert {each.error.code for each in errors} == {STOCKOUT}
    assert name in {each.name for each in client.list(project=PROJECT, **{word.removesuffix("s"): value})}

    resource: dict[str, Any] = {"instances": [each.instance for each in rows]}
    field = f"{'region_' if word == 'regions' else ''}instance_group_managers_delete_instances_request_resource"
    client.delete_instances({**at, field: resource})
    assert client.get(**at).target_size == 0
