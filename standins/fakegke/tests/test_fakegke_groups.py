"""The instance groups of the pools: what they say while GKE tries, and what a resize does."""

import pytest
from google.cloud import container_v1

from standins.fakegke.tests.compute_groups import NO_STOCK, STOCKOUT, Groups, created_empty, sold_out
from standins.fakegke.tests.fakegke_worlds import FLEX_START, LONG, ServedWorld, cpu_pool, reserved

Pool = container_v1.NodePool.Status
TIERS = {"spot": {"spot": True}, "on-demand": {"spot": False}, "flex": FLEX_START, "reserved": reserved("res-1")}


def _nodes(served: ServedWorld, pool: str = "pool-1") -> int:
    (row,) = [
        row
        for row in served.admin("/admin/pools")["pools"]
        if (row["pool"], row["cluster"]) == (pool, served.cluster)
    ]
    return int(row["nodes"])


def test_an_empty_pool_stays_empty_until_its_group_is_resized(served: ServedWorld) -> None:
    group = created_empty(served)
    served.advance(LONG)
    assert (_nodes(served), group.read()["targetSize"], group.instances()) == (0, 0, [])

    assert group.resize(4).json()["status"] == "DONE"
    served.advance(50)
    states = {(each["currentAction"], each["instanceStatus"]) for each in group.instances()}
    assert states <= {("CREATING", "PROVISIONING"), ("CREATING", "STAGING"), ("NONE", "RUNNING")}
    served.advance(600)
    assert (_nodes(served), served.pool().status) == (4, Pool.RUNNING)
    assert [(each["currentAction"], each["instanceStatus"]) for each in group.instances()] == [
        ("NONE", "RUNNING")
    ] * 4


@pytest.mark.parametrize("tier", TIERS)
def test_the_creation_of_an_empty_pool_takes_seconds_for_every_tier(served: ServedWorld, tier: str) -> None:
    sold_out(served)
    created_empty(served, config=TIERS[tier])


def test_the_instances_that_come_have_the_names_of_the_nodes_that_they_become(served: ServedWorld) -> None:
    group = created_empty(served)
    group.resize(4)
    before = {each["name"] for each in group.instances()}
    served.advance(600)
    assert set(group.node_names()) == before


@pytest.mark.parametrize("size", [1, 3, 5])
def test_the_group_of_a_slice_has_all_of_its_hosts_or_none(served: ServedWorld, size: int) -> None:
    refused = created_empty(served).resize(size)
    assert refused.status_code == 400
    assert "gang mode of size '4'" in refused.json()["error"]["message"]


def test_a_group_lists_its_instances_in_pages_of_500(served: ServedWorld) -> None:
    served.client.create_node_pool(parent=served.parent, node_pool=cpu_pool(initial_node_count=750))
    served.advance(LONG)
    group = Groups(served)
    pages = [group.ask_page(token).json() for token in ("", "500")]

    assert group.read()["listManagedInstancesResults"] == "PAGINATED"
    counts = [(len(page["managedInstances"]), page.get("nextPageToken")) for page in pages]
    assert counts == [(500, "500"), (250, None)]
    assert len({each["name"] for page in pages for each in page["managedInstances"]}) == 750
    assert {group.ask_page(token).status_code for token in ("750", "x", "-1")} == {400}


def test_without_capacity_instances_stay_creating_and_say_why_after_seconds(served: ServedWorld) -> None:
    sold_out(served)
    group = created_empty(served)
    group.resize(4)
    assert all(each["currentAction"] == "CREATING" and "lastAttempt" not in each for each in group.instances())
    assert group.errors() == []

    served.advance(20)
    rows = group.instances()
    (error,) = rows[0]["lastAttempt"]["errors"]["errors"]
    assert (len(rows), error["code"]) == (4, STOCKOUT)
    assert error["message"].startswith(NO_STOCK)
    assert not [each for each in rows if "instanceStatus" in each]
    assert {each["error"]["code"] for each in group.errors()} == {STOCKOUT}
    assert (served.pool().status, _nodes(served)) == (Pool.RUNNING, 0)


def test_a_slices_group_tells_of_its_bulk_operation_and_counts_by_state(served: ServedWorld) -> None:
    sold_out(served)
    group = created_empty(served)
    idle = group.read()
    assert (idle["targetSizePolicy"]["mode"], idle["status"]["isStable"]) == ("BULK", True)
    assert idle["status"]["bulkInstanceOperation"] == {"inProgress": False}

    group.resize(4)
    served.advance(20)
    busy = group.read()
    assert (busy["targetSize"], busy["currentActions"]["creating"]) == (4, 4)
    status = busy["status"]
    assert (status["isStable"], status["currentInstanceStatuses"]["nonExistent"]) == (False, 4)
    check = status["bulkInstanceOperation"]
    assert check["inProgress"]
    assert check["lastProgressCheck"]["error"]["errors"][0]["code"] == STOCKOUT
    assert check["lastProgressCheck"]["timestamp"].endswith("Z")


def test_a_pool_that_waits_can_be_deleted_at_any_time(served: ServedWorld) -> None:
    sold_out(served)
    created_empty(served).resize(4)
    served.advance(20)
    served.delete()
    served.advance(40)
    assert served.pools() == []


@pytest.mark.parametrize("how", ["resize", "delete"])
def test_instances_that_are_given_up_leave_their_errors_listed_and_never_come(
    served: ServedWorld, how: str
) -> None:
    sold_out(served)
    group = created_empty(served)
    group.resize(4)
    served.advance(20)
    names = [each["instance"] for each in group.instances()]
    answer = group.resize(0) if how == "resize" else group.delete(names)
    answer.raise_for_status()
    assert (group.read()["targetSize"], group.instances()) == (0, [])
    assert {each["instanceActionDetails"]["instance"] for each in group.errors()} == set(names)
    served.clear_faults()
    served.advance(LONG)
    assert _nodes(served) == 0


def test_capacity_that_comes_while_instances_are_wanted_serves_them(served: ServedWorld) -> None:
    sold_out(served)
    group = created_empty(served)
    group.resize(4)
    served.advance(300)
    assert _nodes(served) == 0
    served.clear_faults()
    served.advance(700)
    assert _nodes(served) == 4


def test_a_group_is_made_smaller_and_its_nodes_go(served: ServedWorld) -> None:
    group = created_empty(served)
    group.resize(4)
    served.advance(600)
    group.resize(0)
    served.advance(60)
    assert (_nodes(served), served.pool().status) == (0, Pool.RUNNING)
    group.resize(4)
    served.advance(600)
    assert _nodes(served) == 4


def test_a_group_of_single_hosts_takes_any_size_and_what_there_is(served: ServedWorld) -> None:
    served.add_fault(switch="outcome", kind="partial", nodes=2)
    pool = cpu_pool(initial_node_count=0, autoscaling={"enabled": True, "max_node_count": 5})
    served.client.create_node_pool(parent=served.parent, node_pool=pool)
    served.advance(30)
    group = Groups(served)
    group.resize(3).raise_for_status()
    served.advance(600)
    assert [each["currentAction"] for each in group.instances()] == ["NONE", "NONE", "CREATING"]
    assert "currentInstanceStatuses" not in group.read()["status"]
    assert group.read()["targetSizePolicy"] == {"mode": "INDIVIDUAL"}


def test_flex_start_waits_as_pending_without_an_error(served: ServedWorld) -> None:
    sold_out(served)
    group = created_empty(served, config=FLEX_START)
    group.resize(4)
    served.advance(LONG)
    status = group.read()["status"]
    assert status["currentInstanceStatuses"]["pending"] == 4
    assert status["bulkInstanceOperation"] == {"inProgress": True}
    assert (group.errors(), [each for each in group.instances() if "lastAttempt" in each]) == ([], [])


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        ("quota", "QUOTA_EXCEEDED", "Insufficient quota"),
        ("ip", "IP_SPACE_EXHAUSTED_WITH_DETAILS", "is exhausted"),
        ("permission", "PERMISSIONS_ERROR", "Required 'compute.instances.create' permission"),
        ("org_policy", "CONDITION_NOT_MET", "constraints/compute.vmExternalIpAccess violated"),
    ],
)
def test_each_cause_has_its_own_code(served: ServedWorld, kind: str, code: str, words: str) -> None:
    sold_out(served, kind)
    group = created_empty(served)
    group.resize(4)
    served.advance(20)
    (error,) = group.instances()[0]["lastAttempt"]["errors"]["errors"]
    assert error["code"] == code
    assert words in error["message"]


def test_the_group_of_a_pool_with_nodes_says_in_seconds_what_gke_says_in_half_an_hour(served: ServedWorld) -> None:
    sold_out(served)
    operation = served.create()
    served.advance(40)
    group = Groups(served)
    assert (group.read()["targetSize"], {each["error"]["code"] for each in group.errors()}) == (4, {STOCKOUT})
    served.advance(2_000)
    assert served.operation(operation).status == container_v1.Operation.Status.RUNNING
    assert "incompatible operation" in served.refusal(served.delete).text
    served.advance(100)
    assert served.operation(operation).error.code == 8


def test_capacity_that_comes_while_gke_still_tries_ends_the_creation_well(served: ServedWorld) -> None:
    sold_out(served)
    operation = served.create()
    served.advance(1_000)
    served.clear_faults()
    served.advance(700)
    done = served.operation(operation)
    assert (done.status, done.error.code) == (container_v1.Operation.Status.DONE, 0)
    assert (_nodes(served), served.pool().status) == (4, Pool.RUNNING)


def test_the_template_of_an_empty_group_says_what_its_nodes_will_have(served: ServedWorld) -> None:
    group = created_empty(served)
    (item,) = group.template()["properties"]["metadata"]["items"]
    assert item["key"] == "kube-env"
    for part in (
        "cloud.google.com/gke-nodepool=pool-1",
        "cloud.google.com/gke-tpu-topology=4x4",
        ";node_taints=google.com/tpu=present:NoSchedule;",
        ";extended_resources=google.com/tpu=4",
    ):
        assert part in item["value"]
    machine = group.machine_type()
    assert (machine["guestCpus"], machine["memoryMb"]) == (180, 720 * 1024)
