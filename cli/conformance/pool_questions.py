"""The questions about node pools and operations. The pools have no nodes, so they cost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.conformance.probe_pools import ACCEPTED, AT_REST, LABEL, Lab, OutOfTime
from cli.conformance.questions import NotAsked, Seen, question
from shared.core.decide.limits import LISTED_SECONDS
from shared.core.nodepool import NODE_LABEL_CHARACTERS_MAX, measure_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

POOLS_AT_ONCE = 24
"""More than run at once, by our assumption, and far fewer than GKE accepts."""
RUN_AT_ONCE = 20
STATUS_SECONDS = 120.0
"""GKE's own provisioner waits so long for a status after the end of a creation."""
_BUSY = "400 FAILED_PRECONDITION, read as Busy"
_EXISTS = "409 ALREADY_EXISTS, read as AlreadyExists"
_INVALID = "400 INVALID_ARGUMENT, read as InvalidRequest"
_AT_ONCE_SECONDS = 2.0
"""Two looks and the time of their answers; what is seen so early is seen at once."""


def _second_create(lab: Lab, text: str, switch: str) -> Seen:
    """Return the answer to a second create of a name."""
    return lab.answer(text, switch, answer="exists") if text == _EXISTS else lab.answer(text)


@question("duplicate-create", minutes=1, assumed=_BUSY)
def ask_duplicate_create(lab: Lab) -> Seen:
    """Create one pool twice at once."""
    name = lab.new_name()
    answers = lab.at_once([lambda: lab.create(name)] * 2)
    refused = [each for each in answers if each != ACCEPTED]
    if len(refused) != 1:
        return Seen(text="both are accepted" if not refused else f"both are refused: {refused[0]}")
    return _second_create(lab, refused[0], "dup_create_inflight")


@question("create-existing", minutes=3, assumed=_EXISTS)
def ask_create_existing(lab: Lab) -> Seen:
    """Create a pool, and again after its operation has ended."""
    name = lab.make()
    return lab.answer(lab.create(name))


@question("create-while-deleting", minutes=3, assumed=_BUSY)
def ask_create_while_deleting(lab: Lab) -> Seen:
    """Create a pool, delete it, and create it during the deletion."""
    name = lab.make()
    lab.accept(lab.delete(name))
    return _second_create(lab, lab.create(name), "create_while_stopping")


@question("delete-while-creating", minutes=1, assumed=_BUSY)
def ask_delete_while_creating(lab: Lab) -> Seen:
    """Create a pool, and delete it during the creation."""
    name = lab.new_name()
    lab.accept(lab.create(name))
    return lab.answer(lab.delete(name))


@question("delete-twice", minutes=3, assumed=_BUSY)
def ask_delete_twice(lab: Lab) -> Seen:
    """Create a pool, and delete it twice."""
    name = lab.make()
    lab.accept(lab.delete(name))
    return lab.answer(lab.delete(name))


@question("missing-pool", minutes=1, assumed="404 NOT_FOUND, read as NotFound")
def ask_missing_pool(lab: Lab) -> Seen:
    """Read and delete a pool that does not exist."""
    name = lab.new_name()
    looked, deleted = lab.look(f"/nodePools/{name}"), lab.delete(name)
    return lab.answer(looked if looked == deleted else f"read: {looked}; delete: {deleted}")


@question("missing-cluster", minutes=1, assumed="404 NOT_FOUND, read as ClusterNotFound")
def ask_missing_cluster(lab: Lab) -> Seen:
    """List the pools of a cluster that does not exist."""
    return lab.answer(lab.look("-absent/nodePools"))


@question("read-after-create", minutes=1, assumed="the pool is found")
def ask_read_after_create(lab: Lab) -> Seen:
    """Create a pool, and read it at once."""
    name = lab.new_name()
    lab.accept(lab.create(name))
    found = lab.look(f"/nodePools/{name}")
    if found == ACCEPTED:
        return Seen(text="the pool is found")
    return lab.answer(found, "get_404_after_create", count=1)


@question("list-after-create", minutes=6, assumed=f"within {LISTED_SECONDS:.0f} s")
def ask_list_after_create(lab: Lab) -> Seen:
    """Create a pool, and list the pools until it is there."""
    name, began, at = lab.new_name(), lab.now(), dict[str, float]()
    lab.accept(lab.create(name))

    def is_over() -> bool:
        if any(each["name"] == name for each in lab.list_pools()):
            at.setdefault("listed", lab.now())
        if _find_create(lab, name).get("status") == "DONE":
            at.setdefault("ended", lab.now())
        return len(at) == 2  # noqa: PLR2004 -- both

    lab.wait(f"{name} in the list", is_over, every=1.0)
    # The fake counts from the end of the operation, unless the pool was listed before that.
    seconds, after = at["listed"] - began, at["listed"] - at["ended"]
    if after < 0:
        return _late(seconds, LISTED_SECONDS, "stale_list", seconds, created=False)
    return _late(seconds, LISTED_SECONDS, "stale_list", after)


@question("status-after-end", minutes=6, assumed=f"within {STATUS_SECONDS:.0f} s")
def ask_status_after_end(lab: Lab) -> Seen:
    """Create a pool, and read it from the end of its operation until it runs."""
    name = lab.new_name()
    lab.accept(lab.create(name))
    lab.wait("the end of the operation", lambda: _find_create(lab, name).get("status") == "DONE", every=1.0)
    seconds = lab.wait(f"{name} to run", lambda: lab.find_status(name) == "RUNNING", every=1.0)
    return _late(seconds, STATUS_SECONDS, "read_lag", seconds)


def _late(seconds: float, most: float, switch: str, setting: float, **more: Any) -> Seen:
    fault = {"switch": switch, "seconds": max(1.0, round(setting, 1)), **more}
    return Seen(
        text=f"within {most:.0f} s" if seconds <= most else "later",
        details={"seconds": f"{seconds:.1f}"},
        faults=(fault,) if seconds > _AT_ONCE_SECONDS else (),
    )


def _find_create(lab: Lab, name: str) -> dict[str, Any]:
    """Return the operation that creates a pool; empty if it is not listed."""
    end = f"/nodePools/{name}"
    found = [each for each in lab.list_operations() if each.get("targetLink", "").endswith(end)]
    return next((each for each in found if each.get("operationType") == "CREATE_NODE_POOL"), {})


@question("operation-fields", minutes=3, assumed="all there: type, target, status, start, end")
def ask_operation_fields(lab: Lab) -> Seen:
    """Create a pool, and read its operation in the list of operations."""
    name = lab.make()
    found = _find_create(lab, name)
    place = f"/{lab.cluster.split('/')[3]}/clusters/{lab.cluster.rpartition('/')[2]}/nodePools/{name}"
    good = {
        "type": bool(found),
        "target": found.get("targetLink", "").endswith(place),
        "status": found.get("status") == "DONE",
        "start": bool(found.get("startTime")),
        "end": bool(found.get("endTime")),
    }
    return Seen(text=_tell_missing(good), details={"target": found.get("targetLink", "none")})


def _tell_missing(good: Mapping[str, bool]) -> str:
    wrong = [name for name, right in good.items() if not right]
    return f"wrong or absent: {', '.join(wrong)}" if wrong else f"all there: {', '.join(good)}"


@question("operations-kept", minutes=4, assumed="listed a minute after its end")
def ask_operations_kept(lab: Lab) -> Seen:
    """Create a pool, and look for its operation after a minute."""
    name = lab.make()
    lab.sleep(60.0)
    times = sorted(each["endTime"] for each in lab.list_operations() if each.get("endTime"))
    details = {"oldest of the location": times[0] if times else "none"}
    if _find_create(lab, name):
        return Seen(text="listed a minute after its end", details=details)
    return Seen(text="forgotten", details=details, faults=({"switch": "op_gc", "seconds": 0.0},))


@question(
    "operations-at-once", minutes=5, assumed=f"{POOLS_AT_ONCE} of {POOLS_AT_ONCE} accepted, {RUN_AT_ONCE} run"
)
def ask_operations_at_once(lab: Lab) -> Seen:
    """Create 24 pools at once, and count how many operations run."""
    names = [lab.new_name() for _ in range(POOLS_AT_ONCE)]
    answers = lab.at_once([lambda name=name: lab.create(name) for name in names])  # type: ignore[misc]
    accepted = [name for name, answer in zip(names, answers, strict=True) if answer == ACCEPTED]
    refusals = sorted({each for each in answers if each != ACCEPTED})
    running = [0]

    def is_over() -> bool:
        own = [each for each in lab.list_operations() if each.get("targetLink", "").rpartition("/")[2] in names]
        running.append(sum(each.get("status") == "RUNNING" for each in own))
        there = {each["name"]: each.get("status") for each in lab.list_pools()}
        return all(there.get(name) in AT_REST for name in accepted)

    lab.wait("the end of the operations", is_over, every=2.0)
    most = max(running)
    faults = [] if most in (0, RUN_AT_ONCE) else [{"switch": "max_running_ops", "value": most}]
    if refusals:
        faults.append({"switch": "max_inflight_ops", "value": max(1, len(accepted))})
    text = f"{len(accepted)} of {POOLS_AT_ONCE} accepted, {most} run"
    return Seen(text=text, details={"refusals": "; ".join(refusals) or "none"}, faults=tuple(faults))


def _find_channel(lab: Lab) -> str:
    channel = str(lab.describe().get("releaseChannel", {}).get("channel", "UNSPECIFIED"))
    if channel in ("UNSPECIFIED", ""):
        raise NotAsked("the cluster is on no release channel")
    return channel


@question("auto-upgrade", minutes=1, assumed=_INVALID)
def ask_auto_upgrade(lab: Lab) -> Seen:
    """Create a pool without auto-upgrade, on a release channel."""
    _find_channel(lab)
    return lab.answer(lab.create(lab.new_name(), management={"autoRepair": True, "autoUpgrade": False}))


@question("exclusion", minutes=1, assumed=ACCEPTED)
def ask_exclusion(lab: Lab) -> Seen:
    """Create a pool with a maintenance exclusion, on a release channel."""
    _find_channel(lab)
    excluded = {"exclusionUntilEndOfSupport": {"enabled": True}}
    return lab.answer(lab.create(lab.new_name(), maintenancePolicy=excluded))


SENT: dict[str, Any] = {
    "maxPodsConstraint": {"maxPodsPerNode": "16"},
    "upgradeSettings": {"maxSurge": 1},
    "autoscaling": {"enabled": True, "maxNodeCount": 1, "locationPolicy": "ANY"},
    "management": {"autoRepair": True, "autoUpgrade": True},
    "config": {
        "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
        "shieldedInstanceConfig": {"enableIntegrityMonitoring": True, "enableSecureBoot": True},
        "resourceLabels": {"tpu-provisioner-workload": "conformance"},
        "diskSizeGb": 30,
        "taints": [{"key": "tpu-provisioner-conformance", "value": "true", "effect": "NO_SCHEDULE"}],
    },
}
"""What the functions send for a pool, as far as a CPU machine can have it."""
_KEYS = {"google.com/conformance-run": "1"}
"""A key with the prefix of the owner labels."""


@question("fields", minutes=3, assumed="all come back as they were sent")
def ask_fields(lab: Lab) -> Seen:
    """Create a pool with each field that the functions send, and read it."""
    name = lab.make(labels=_KEYS, **SENT)
    found = lab.read(f"/nodePools/{name}")
    config = {**SENT["config"], "labels": {**_KEYS, LABEL: lab.report.run}}
    lost = sorted(_list_lost({**SENT, "config": config}, found, ""))
    return Seen(text=f"changed or absent: {', '.join(lost)}" if lost else "all come back as they were sent")


def _list_lost(sent: Any, got: Any, path: str) -> list[str]:
    """Return the fields that do not come back. GKE leaves out zeros, and writes int64 as text."""
    if isinstance(sent, dict):
        inside = got if isinstance(got, dict) else {}
        return [
            each for key, value in sent.items() for each in _list_lost(value, inside.get(key), f"{path}.{key}")
        ]
    if isinstance(sent, list):
        absent = [each for each in sent if each not in (got if isinstance(got, list) else [])]
        return [path.lstrip(".")] if absent else []
    same = str(got) == str(sent) or (not sent and got is None)
    return [] if same else [path.lstrip(".")]


@question("label-limit", minutes=1, assumed=f"as long as ours may be: {ACCEPTED}; 100 more: {_INVALID}")
def ask_label_limit(lab: Lab) -> Seen:
    """Create two pools, with 1,024 and 1,124 characters of node labels."""
    fits = lab.create(lab.new_name(), labels=_fill(lab, NODE_LABEL_CHARACTERS_MAX))
    over = lab.create(lab.new_name(), labels=_fill(lab, NODE_LABEL_CHARACTERS_MAX + 100))
    return lab.answer(f"as long as ours may be: {fits}; 100 more: {over}")


def _fill(lab: Lab, characters: int) -> dict[str, str]:
    """Return labels that have so many characters, with separators and the label of the run."""
    labels, number = dict[str, str](), 0
    while (room := characters - measure_labels({**labels, LABEL: lab.report.run})) > 4:  # noqa: PLR2004 -- the least
        labels[f"l{number:02d}"] = "x" * min(63, room - 5)
        number += 1
    return labels


@question("name-length", minutes=1, assumed=f"40 characters: {ACCEPTED}; 41: {_INVALID}")
def ask_name_length(lab: Lab) -> Seen:
    """Create two pools, whose names have 40 and 41 characters."""
    answers = []
    for length in (40, 41):
        name = f"{lab.new_name()}-".ljust(length, "x")
        lab.note(name)
        answers.append(lab.create(name))
    return lab.answer(f"40 characters: {answers[0]}; 41: {answers[1]}")


@question("empty-group", minutes=3, assumed="1 group, 0 machines wanted, 0 tried")
def ask_empty_group(lab: Lab) -> Seen:
    """Create a pool in one zone, and read its instance group."""
    zones = [lab.zone] if lab.zone else lab.describe().get("locations", [])[:1]
    name = lab.make(locations=zones)
    pools = lab.deployment.ports.pools
    found = pools.get(lab.cluster, name)
    if found is None:
        raise OutOfTime(f"{name} is not there any more")
    answer = f"{len(found.group_urls)} group, {pools.measure(found)} machines wanted"
    return Seen(
        text=f"{answer}, {len(pools.list_missing(found))} tried", details={"group": ", ".join(found.group_urls)}
    )
