"""The questions about Google. `assumptions.yaml` names the test that answers each of them."""

import json
import uuid
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3

from cli.access.deployment import FUNCTIONS, name_topic
from cli.prices import find_pool_price
from cli.printing import format_exact
from shared.deliver import IDLE
from shared.edges.kubernetes import JsonObject
from shared.engine.budget import SENT_SECONDS
from shared.model.decisions import Reason
from shared.model.failures import classify_failure
from shared.model.messages import Event, EventType, format_message, parse_entry
from shared.model.names import ObjectName
from shared.model.pools import Machines, NodePool, PoolStatus
from shared.shapes.catalogue import TPUS, Family, Placement
from shared.shapes.tpus import count_chips
from tests.real.lab import ABSENT, ACCEPTED, AT_REST, BUSY, EXISTS, INVALID, LABEL, Lab
from tests.recordings.answer_comparison import flatten

pytestmark = [pytest.mark.real, pytest.mark.timeout(0)]
POOLS_AT_ONCE, RUN_AT_ONCE = 24, 20  # GKE accepts all of them
LABEL_CHARACTERS_MAX = 1024
STATUS_SECONDS = 120.0  # so long GKE's own provisioner waits for a status
PAID_HOURS = 0.5  # a slice that gets its machines is deleted at once
METRIC = 'logging_googleapis_com:user_tpu_provisioner_ticks{monitored_resource="cloud_run_revision"}'
FUNCTION_PAGE = b"<title>404 Not Found</title>"  # of the functions' own framework
CONFIG: dict[str, Any] = {
    "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
    "shieldedInstanceConfig": {"enableIntegrityMonitoring": True, "enableSecureBoot": True},
    "resourceLabels": {"tpu-provisioner-workload": "test"},
    "diskSizeGb": 30,
    "taints": [{"key": LABEL, "value": "true", "effect": "NO_SCHEDULE"}],
}
SENT: dict[str, Any] = {
    "maxPodsConstraint": {"maxPodsPerNode": "16"},
    "upgradeSettings": {"maxSurge": 1},
    "autoscaling": {"enabled": True, "maxNodeCount": 1, "locationPolicy": "ANY"},
    "management": {"autoRepair": True, "autoUpgrade": True},
}
"""What the functions send for a pool, as far as a CPU machine can have it."""


def test_create_twice_at_once(lab: Lab) -> None:
    name = lab.new_name()
    assert {*lab.at_once([lambda: lab.create(name)] * 2)} == {ACCEPTED, BUSY}, lab.words


def test_while_creating(lab: Lab) -> None:
    name = lab.new_name()
    lab.accept(lab.create(name))
    found = {"read": lab.look(f"/nodePools/{name}"), "delete": lab.delete(name)}
    assert found == {"read": ACCEPTED, "delete": BUSY}, lab.words


def test_appears(lab: Lab) -> None:
    name = lab.new_name()
    lab.accept(lab.create(name))
    began = lab.now()
    lab.wait("the end of the operation", lambda: lab.find_create(name).get("status") == "DONE", every=1.0)
    ran = lab.wait(f"{name} to run", lambda: lab.find_status(name) == "RUNNING", every=1.0)
    lab.wait(f"{name} in a list", lambda: name in {each["name"] for each in lab.list_pools()}, every=1.0)
    assert (ran <= STATUS_SECONDS, lab.now() - began <= SENT_SECONDS) == (True, True), ran


def test_while_deleting(lab: Lab) -> None:
    name = lab.make()
    lab.accept(lab.delete(name))
    assert {"create": lab.create(name), "delete": lab.delete(name)} == {"create": BUSY, "delete": BUSY}, lab.words


def test_missing(lab: Lab) -> None:
    name = lab.new_name()
    assert (lab.look(f"/nodePools/{name}"), lab.delete(name)) == (ABSENT, ABSENT), lab.words
    assert lab.look("-absent/nodePools") == "404, read as ClusterNotFound", lab.words


def test_created(lab: Lab) -> None:
    """The name is taken, and the operation is listed with the fields that are read."""
    name = lab.make()
    assert lab.create(name) == EXISTS, lab.words
    lab.sleep(60.0)
    found, (_, _, _, location, _, cluster) = lab.find_create(name), lab.cluster.split("/")
    assert found["targetLink"].endswith(f"/{location}/clusters/{cluster}/nodePools/{name}")
    assert (found["status"], bool(found["startTime"]), bool(found["endTime"])) == ("DONE", True, True)


def test_operations_at_once(lab: Lab) -> None:
    names = [lab.new_name() for _ in range(POOLS_AT_ONCE)]
    answers = lab.at_once([lambda name=name: lab.create(name) for name in names])  # type: ignore[misc]
    running = [0]

    def is_over() -> bool:
        own = [each for each in lab.list_operations() if each.get("targetLink", "").rpartition("/")[2] in names]
        running.append(sum(each.get("status") == "RUNNING" for each in own))
        there = {each["name"]: each.get("status") for each in lab.list_pools()}
        return all(there.get(name) in AT_REST for name in names)

    assert answers == [ACCEPTED] * POOLS_AT_ONCE, lab.words
    lab.wait("the end of the operations", is_over)
    assert max(running) == RUN_AT_ONCE


def test_upgrades(lab: Lab) -> None:
    if lab.read("").get("releaseChannel", {}).get("channel", "UNSPECIFIED") in ("UNSPECIFIED", ""):
        pytest.skip("the cluster is on no release channel")
    excluded = {"exclusionUntilEndOfSupport": {"enabled": True}}
    off = lab.create(lab.new_name(), management={"autoRepair": True, "autoUpgrade": False})
    assert (off, lab.create(lab.new_name(), maintenancePolicy=excluded)) == (INVALID, ACCEPTED), lab.words


def test_fields(lab: Lab) -> None:
    labels = {"google.com/test": "1"}  # the prefix of the owner labels
    name = lab.make(labels=labels, config=CONFIG, **SENT)
    sent = {**SENT, "config": {**CONFIG, "labels": {**labels, LABEL: lab.run}}}
    assert _list_lost(sent, lab.read(f"/nodePools/{name}")) == []


def _list_lost(sent: Any, got: Any) -> list[str]:
    """Return the fields that do not come back. GKE leaves out zeros, and writes int64 as text."""
    there = flatten(got)
    other = {path: each for path, each in flatten(sent).items() if str(there.get(path)) != str(each)}
    return [path for path, each in other.items() if each or path in there]


def test_limits(lab: Lab) -> None:
    fits, over = (_fill(lab, LABEL_CHARACTERS_MAX + more) for more in (0, 100))
    labels = [lab.create(lab.new_name(), labels=each) for each in (fits, over)]
    names = [lab.create(lab.new_name(length)) for length in (40, 41)]
    assert (labels, names) == ([ACCEPTED, INVALID], [ACCEPTED, INVALID]), lab.words


def _fill(lab: Lab, characters: int) -> dict[str, str]:
    """Return labels of so many characters, with separators and the label of the run."""
    values = characters - len(LABEL) - len(lab.run) - 2 - 20 * len("l00=,")
    return {f"l{at:02d}": "x" * ((values + at) // 20) for at in range(20)}


def test_empty_group(lab: Lab) -> None:
    pools = lab.deployment.ports.pools
    found = pools.get(lab.cluster, lab.make(locations=[lab.zone or lab.read("")["locations"][0]]))
    assert found is not None
    assert (len(found.group_urls), pools.read_machines(found)) == (1, Machines())


def _find_family(machine: str) -> Family:
    return next(each for each in TPUS.values() if machine in (known.name for known in each.machines))


def _count_hosts(lab: Lab) -> int:
    name, _, topology = lab.tpu.partition(":")
    machine = next(each for each in _find_family(name).machines if each.name == name)
    return count_chips(topology) // machine.chips


def _describe_slice(lab: Lab) -> dict[str, Any]:
    """Return a slice in the form of the functions, as `shared.needs.nodepool` builds it."""
    machine, _, topology = lab.tpu.partition(":")
    if not (lab.tpu and lab.zone):
        pytest.skip("it needs --tpu and --zone")
    family = _find_family(machine)
    placement = {"type": "COMPACT", "tpuTopology": topology}
    if family.placement == Placement.WORKLOAD_POLICY:
        placement = {"policyName": f"{lab.deployment.settings.workload_policy_prefix}{topology}"}
    config = {"machineType": machine, "spot": True}
    return {"config": config, "placementPolicy": placement, "locations": [lab.zone]}


def test_empty_slice(lab: Lab) -> None:
    found = _describe_slice(lab)
    scaling = {"enabled": True, "maxNodeCount": _count_hosts(lab), "locationPolicy": "ANY"}
    assert lab.find_status(lab.make(**found, autoscaling=scaling)) == "RUNNING", lab.words


def test_bad_node_count(lab: Lab) -> None:
    found = _describe_slice(lab)  # if GKE accepts it, its machines cost money
    assert lab.create(lab.new_name(), **found, initialNodeCount=_count_hosts(lab) + 1) == INVALID, lab.words


@pytest.mark.minutes(40)
def test_stockout(lab: Lab, asked: SimpleNamespace) -> None:
    """GKE tries for 35 minutes to make the machines. Meanwhile the instance group tells why not."""
    found, (machine, _, topology) = _describe_slice(lab), lab.tpu.partition(":")
    sort: dict[str, Any] = {"machine_type": machine, "topology": topology, "maximum": _count_hosts(lab)}
    spot = NodePool(name="", status=PoolStatus.RUNNING, spot=True, **sort)
    price = find_pool_price(spot, lab.zone, chips=spot.units * spot.hosts)
    if price is None or price * PAID_HOURS > float(asked.dollars):
        pytest.skip(f"it can cost half of {price or 'unknown'} dollars, and --dollars allows {asked.dollars}")
    name, told = lab.new_name(), list[str]()
    lab.accept(lab.create(name, **found, initialNodeCount=_count_hosts(lab)))

    def is_over() -> bool:
        pool = lab.deployment.ports.pools.get(lab.cluster, name)
        if pool is not None and pool.group_urls:
            told.extend(each.message for each in lab.deployment.ports.pools.read_machines(pool).errors)
        return lab.find_status(name) in (*AT_REST, "")

    lab.wait("GKE to give up", is_over, every=10.0)
    ended = lab.read(f"/nodePools/{name}")
    if ended.get("status") == "RUNNING":
        pytest.skip("no stockout came: the slice got its machines")
    words = ended.get("statusMessage") or "; ".join(
        each.get("message", "") for each in ended.get("conditions", [])
    )
    assert (ended["status"], classify_failure(words)) == ("ERROR", Reason.STOCKOUT), words
    assert [classify_failure(each) for each in told[:1]] == [Reason.STOCKOUT], told


def _wait_for_entry(lab: Lab, wanted: str, since: float) -> Any:
    """Return the newest log entry that fits, once there is one."""
    logs, found = lab.deployment.open_logs, list[Any]()
    if logs is None:
        pytest.skip("TPU_PROVISIONER_LOGGING_ENDPOINT is empty")

    def is_there() -> bool:
        client: Any = logs(lab.cluster.split("/")[1])
        filter_text = f'timestamp>="{format_exact(since - 60.0)}" AND {wanted}'
        found[:] = client.list_entries(filter_=filter_text, order_by="timestamp desc", max_results=20)
        return bool(found)

    lab.wait(f"a log entry with {wanted}", is_there)
    return found[0]


def _find_topic(lab: Lab) -> str:
    own = lab.deployment.own
    return name_topic(own) if own.project else pytest.skip("there is no deployment")


def test_audit_entry(lab: Lab) -> None:
    began, name = lab.now(), lab.make()
    log = f"projects/{lab.cluster.split('/')[1]}/logs/cloudaudit.googleapis.com%2Factivity"
    wanted = f'logName="{log}" AND protoPayload.resourceName:"/nodePools/{name}" AND operation.last=true'
    ended, last = lab.now(), _wait_for_entry(lab, wanted, began)
    found = parse_entry(json.dumps(last.to_api_repr()).encode())
    assert found is not None
    assert (found.created, found.pool, lab.now() - ended < 60) == (True, name, True)


def test_push(lab: Lab) -> None:
    job = ObjectName(kind="Job", namespace="tpu-provisioner", name="test", uid=str(uuid.uuid4()))
    event = Event(type=EventType.DEMAND, cluster=lab.cluster, subject=job)
    began = lab.now()
    lab.deployment.pubsub.open_topic(_find_topic(lab)).publish([format_message(event)])
    found = _wait_for_entry(lab, f'jsonPayload.event_id="{event.id}" AND jsonPayload.message:*', began)
    assert found.payload["message"] == IDLE


def test_ingress(lab: Lab) -> None:
    project = _find_topic(lab).split("/")[1]
    body = json.loads(
        lab.open_api("https://run.googleapis.com").call("GET", f"v1/projects/{project}/locations/-/services")
    )
    urls = {each["metadata"]["name"]: each["status"]["url"] for each in body["items"]}
    for name in (f"{lab.deployment.own.name}-{function}" for function in FUNCTIONS):
        address = f"{urls[name].rstrip('/')}/robots.txt"
        answer = urllib3.request("GET", address, timeout=10.0, retries=False, redirect=False)
        assert (answer.status in (401, 403, 404), FUNCTION_PAGE in answer.data) == (True, False), name


def test_user_name(lab: Lab) -> None:
    _find_topic(lab)
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path, api = "/apis/authentication.k8s.io/v1/selfsubjectreviews", lab.deployment.apis[lab.cluster]
    review: Any = api.create(path, body, JsonObject)
    name = review["status"]["userInfo"]["username"]
    assert ("@" in name, ":" in name) == (True, False), name


def test_metric_names(lab: Lab) -> None:
    project = _find_topic(lab).split("/")[1]
    query = urlencode({"query": f"sum(increase({METRIC}[1h]))"})
    path = f"v1/projects/{project}/location/global/prometheus/api/v1/query?{query}"
    answer = json.loads(lab.open_api("https://monitoring.googleapis.com").call("GET", path))
    assert [each for each in answer["data"]["result"] if float(each["value"][1]) > 0]
