"""`status` on known situations: what it prints, at which width, and how it ends."""

import json
import logging
from dataclasses import replace

import pytest
import yaml
from cli.rehearsal import SHOWN_MAX
from shared.core.decide.attempts import find_pause
from shared.core.identity.creations import Creation

from cli.board.readings import Readings
from cli.fleet.status import read_status
from cli.fleet.status_table import print_status
from cli.printing import format_age
from shared.engine.outside import SurplusMark
from shared.model import labels
from shared.model.errors import Unavailable
from shared.model.names import build_pool_name
from shared.model.readings import FillError, Machines
from shared.model.times import format_minute, format_time
from shared.plan.failures import RULES, Failure
from tests.builders import CLUSTER, NOW, a_claim, a_go_pool, a_jobset, a_pod, a_pool
from tests.cli.cli_world import a_deployment, list_printed, put_in_place, read_json, run
from tests.engine.world import World
from tests.log_records import Records

POOL = build_pool_name(a_claim())


def test_the_table_says_whose_each_pool_is_and_what_needs_a_person(half_served: World) -> None:
    second = a_claim(slice_key="default/train-workers-1")
    message, cause = "[GCE_STOCKOUT]", "no capacity in us-east5-b"
    failed, next_try = build_pool_name(second), format_minute(NOW - 50 + find_pause(second.hash, 0))

    result = run("status")

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "POOL                            WORKLOAD        STATE     CHIPS   HOSTS   AGE   REASON",
        f"{POOL}   default/train   RUNNING   16      -       5m    owner_live",
        f"{failed}   default/train   ERROR     16      -       50s   pool_failed",
        "",
        "WAITING SLICE     WORKLOAD        FOR    DECISION   REASON     ATTEMPT   FAILURE    NEXT TRY",
        f"train-workers-1   default/train   1h8m   wait       stockout   0         stockout   {next_try}",
        "",
        "2 pools with 32 chips, 1 slice waiting; 1 needs a person",
        f"default/train: attempt 0 failed: {cause} (GKE: {message}); next try at {next_try} [stockout]",
    ]


@pytest.fixture
def for_others(world: World) -> World:
    """Three pods that wait: one opts out, one has a gate, one is bound to a pool by its name."""
    opted_out = a_pod(pod_labels={labels.DISABLE_AUTOPROVISIONING: "true"}, unschedulable_since=NOW - 120)
    gated = a_pod(jobset="gated", uid="2", unschedulable=False, gates=("kueue.x-k8s.io/admission",))
    bound = a_pod(jobset="bound", uid="3", shape={"selectors": {"cloud.google.com/gke-nodepool": "mine"}})
    world.cluster.pods.clear()
    world.cluster.add(opted_out, gated, bound, a_jobset(name="gated"), a_jobset(name="bound"))
    return world


def test_pods_that_wait_for_something_else_are_counted_in_one_line(for_others: World) -> None:
    result = run("status")

    assert result.exit_code == 0
    assert result.stdout == (
        "0 pools with 0 chips, 0 slices waiting\n"
        "not for this provisioner: 3 leader pods waiting (1 demand_opted_out, 1 demand_not_unschedulable, "
        "1 demand_bound_elsewhere); tpu-provisioner status -o wide shows each with its message\n"
    )
    wide = run("status", "-o", "wide").stdout
    assert "default/train-workers-0-0-abcde   2m" in wide
    assert f"the pod's label or annotation {labels.DISABLE_AUTOPROVISIONING}=true opts out" in wide
    assert "the scheduling gate kueue.x-k8s.io/admission holds the pod; what set the gate must remove it" in wide
    shown = read_json("status")["left_alone"]
    assert [row["reason"] for row in shown] == [
        "demand_opted_out",
        "demand_not_unschedulable",
        "demand_bound_elsewhere",
    ]


def test_the_board_has_the_same_line(for_others: World) -> None:
    shown = Readings(a_deployment(for_others)).read()

    assert shown["left_alone"].startswith("not for this provisioner: 3 leader pods waiting (1 demand_opted_out, ")
    for_others.cluster.pods.clear()
    assert Readings(a_deployment(for_others)).read()["left_alone"] == ""


def test_looking_changes_nothing(half_served: World) -> None:
    read_status(half_served.ports)

    assert {method for method, _ in half_served.pools.calls} <= {"list", "get", "list_creations"}
    assert half_served.cluster.notices == {}


def test_a_slice_that_a_limit_refuses_is_shown_so(half_served: World) -> None:
    half_served.pools.pools.clear()
    half_served.pools.add(CLUSTER, a_pool(age_seconds=300))
    half_served.use(limit_chips=16)

    (row,) = read_status(half_served.ports).waiting

    assert (row.decision, row.reason) == ("refuse", "limit_reached")


def test_a_warm_pool_is_shown_with_its_idle_time(half_served: World, monkeypatch: pytest.MonkeyPatch) -> None:
    half_served.use(idle_seconds=1800)
    put_in_place(monkeypatch, a_deployment(half_served))
    half_served.pools.pools.clear()
    half_served.pools.add(CLUSTER, a_pool(extra_labels={labels.IDLE: "1800"}, age_seconds=3600))
    half_served.cluster.pods.clear()
    half_served.cluster.add(a_jobset(terminal="Completed", terminal_since=NOW))
    half_served.cluster.nodes[POOL] = ["n"]
    line = f"{POOL}   default/train   RUNNING   16      0/4     1h0m   "

    assert run("status").stdout.splitlines()[1] == f"{line}pool_warm: up to 30m"
    half_served.cluster.marks["n"] = SurplusMark(NOW - 720, closed=False)
    result = run("status")
    assert (result.exit_code, result.stdout.splitlines()[1]) == (0, f"{line}pool_warm: idle for 12m of 30m")
    row = read_json("status")["pools"][0]
    assert (row["warm"], row["idle_seconds"], row["idle_seconds_max"]) == (True, 720, 1800)
    assert "is idle since 2027-01-15T07:48:00Z and stays until 08:18 UTC (1800 s)" in row["message"]


def test_what_keeps_many_pools_empty_is_read_of_some(world: World) -> None:
    world.cluster.add(a_jobset(replicas=SHOWN_MAX + 5))
    for index in range(SHOWN_MAX + 5):
        claim = a_claim(slice_key=f"default/train-workers-{index}")
        world.pools.add(CLUSTER, replace(a_pool(claim=claim, age_seconds=590), autoscaled=True))
        world.cluster.add(a_pod(index=index, uid=f"uid-{index}", unschedulable_since=NOW - 600))
    read_status(world.ports)

    assert world.pools.count("read_machines") == SHOWN_MAX


def test_a_quiet_deployment_is_fine(world: World) -> None:
    world.cluster.add(a_pod(node_name="n"))

    result = run("status")

    assert (result.exit_code, result.stdout) == (0, "0 pools with 0 chips, 0 slices waiting\n")


def test_the_emergency_stop_of_a_cluster_is_shown(world: World) -> None:
    world.cluster.namespace_labels["tpu-provisioner"] = {labels.MODE: "no-create"}
    cause = f"the mode is no-create: the label {labels.MODE}=no-create of namespace tpu-provisioner"

    assert f"p/us-east5/c: {cause}" in run("status").stdout.splitlines()
    shown = read_json("status")
    assert shown["stops"] == {CLUSTER: cause}
    assert [each["reason"] for each in shown["waiting"]] == ["mode_no_create"]


def test_a_stopped_act_is_told_in_its_row_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.cluster.namespace_labels["tpu-provisioner"] = {labels.MODE: "no-create"}
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a terminal

    assert run("status").stderr == ""


def test_a_slice_without_a_pool_is_said_to_get_one_and_gets_none_by_the_question(world: World) -> None:
    (row,) = read_json("status")["waiting"]

    assert (row["decision"], row["reason"], row["pool"], row["stuck"]) == ("create", "pool_absent", POOL, False)
    assert world.pools.names(CLUSTER) == []


@pytest.mark.parametrize(("options", "read"), [(("--json",), json.loads), (("-o", "yaml"), yaml.safe_load)])
def test_programs_get_everything(half_served: World, options: tuple[str, ...], read: object) -> None:
    data = read(run("status", *options).stdout)  # type: ignore[operator]

    assert [row["state"] for row in data["pools"]] == ["RUNNING", "ERROR"]
    assert data["pools"][0] | {"message": ""} == {
        "cluster": CLUSTER,
        "pool": POOL,
        "namespace": "default",
        "workload": "train",
        "slice": "train-workers-0",
        "owner_uid": a_claim().owner_uid,
        "state": "RUNNING",
        "nodes": 4,
        "chips": 16,
        "machine_type": "ct6e-standard-4t",
        "topology": "4x4",
        "age_seconds": 300.0,
        "decision": "keep",
        "reason": "owner_live",
        "message": "",
        "stuck": False,
        "attempt": 0,
        "failure": "",
        "warm": False,
        "idle_seconds": None,
        "idle_seconds_max": 0,
        "tier": "on-demand",
        "dollars_per_hour": 43.2,
        "hosts_busy": None,
        "chips_idle": 0,
    }
    assert (data["stuck"], data["errors"]) == (1, [])


@pytest.mark.parametrize(
    ("error", "age_seconds", "expected"),
    [
        ("[GCE_STOCKOUT]", 50, ("wait", 0, "stockout", "later")),
        ("[GCE_STOCKOUT]", 500, ("create", 1, "stockout", "now")),
        ("[PERMISSIONS_ERROR]", 500, ("refuse", 0, "rights", "-")),
        ("Internal error.", 50, ("wait", 0, "internal", "later")),
        ("oh", 50, ("wait", 0, "unknown", "later")),
    ],
)
def test_a_failed_creation_is_told_with_attempt_class_words_and_next_try(
    world: World, error: str, age_seconds: int, expected: tuple[str, int, str, str]
) -> None:
    world.pools.add(CLUSTER, a_pool("ERROR", error=error, age_seconds=age_seconds))
    world.cluster.add(a_pod(created_at=NOW - 600, unschedulable_since=NOW - 600))
    decision, attempt, failure, following = expected
    due = NOW - age_seconds + find_pause(a_claim().hash, RULES[Failure(failure)].doublings)

    shown = read_json("status")
    line = next(each for each in run("status").stdout.splitlines() if each.startswith("train-workers-0 "))

    ((pool,), (row,)) = shown["pools"], shown["waiting"]
    assert (row["decision"], row["attempt"], row["failure"], row["error"]) == (decision, attempt, failure, error)
    assert row["next_try"] == (format_time(due) if following == "later" else "")
    assert (pool["attempt"], pool["failure"]) == (0, failure)
    assert line.endswith(f"   {format_minute(due) if following == 'later' else following}")


def test_what_only_the_operation_says_is_told_of_the_pool_too(world: World) -> None:
    world.pools.add(CLUSTER, a_pool("ERROR", error="oh", age_seconds=50))
    world.pools.creations[CLUSTER, POOL] = Creation(pool=POOL, ended=True, error="oh", code=13, ended_at=NOW - 10)
    world.cluster.add(a_pod(unschedulable_since=NOW - 4000))

    shown = read_json("status")

    assert [row["failure"] for row in (*shown["pools"], *shown["waiting"])] == ["internal", "internal"]
    assert shown["waiting"][0]["next_try"] == format_time(
        NOW - 10 + find_pause(a_claim().hash, RULES[Failure.INTERNAL].doublings)
    )
    assert run("status").stdout.count("[pool_failed, failure: internal]") == 1


def test_a_namespace_shows_only_its_own(half_served: World) -> None:
    assert run("status", "-n", "other").stdout == "0 pools with 0 chips, 0 slices waiting\n"


def test_a_cluster_that_cannot_be_asked_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    down = CLUSTER.replace("/c", "/down", 1).rpartition("/")[0] + "/down"
    world = World(Records(), clusters=(down, CLUSTER))
    world.pools.down_clusters[down] = Unavailable("no answer")
    world.pools.add(CLUSTER, a_pool())
    put_in_place(monkeypatch, a_deployment(world))

    result = run("status")

    assert result.exit_code == 3
    assert POOL in result.stdout
    assert f"error: {down}: no answer" in result.stderr


def test_a_pool_of_the_go_provisioner_has_no_age(world: World) -> None:
    world.pools.add(CLUSTER, a_go_pool())
    world.cluster.add(a_jobset(), a_pod(node_name="n"))

    assert "train-12345   default/train   RUNNING   16      -       ?" in run("status").stdout


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_every_letter_within_its_width(half_served: World, width: int, wide: bool) -> None:
    status = read_status(half_served.ports)

    lines = list_printed(lambda console: print_status(console, status, wide=wide), width=width, terminal=True)

    assert max(len(line) for line in lines) <= width
    letters = "".join("".join(lines).split())
    assert "stockout" in letters
    assert ("ct6e" in letters) is wide or wide


def test_no_color_is_heard(half_served: World) -> None:
    plain = run("status", environ={"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "120"}).stdout

    assert "\x1b[3" not in plain
    assert (
        "\x1b[3" in run("status", environ={"FORCE_COLOR": "1", "COLUMNS": "120", "TERM": "xterm-256color"}).stdout
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (3599, "59m"), (3600, "1h0m"), (90_000, "1d1h"), (None, "?")],
)
def test_ages_are_written_as_kubectl_does(seconds: float | None, text: str) -> None:
    assert format_age(seconds) == text


def test_a_pool_that_gkes_autoscaler_has_not_filled_has_no_hosts_no_price_and_one_line_of_cause(
    half_served: World,
) -> None:
    name = build_pool_name(a_claim())
    url = "https://x/projects/p/zones/us-east5-b/instanceGroupManagers/g-grp"
    message = "ZONE_RESOURCE_POOL_EXHAUSTED: The zone has no capacity."
    half_served.cluster.add(a_pod(unschedulable_since=NOW - 90))
    half_served.pools.pools.clear()
    half_served.pools.add(CLUSTER, replace(a_pool(age_seconds=100), autoscaled=True, group_urls=(url,)))
    half_served.pools.sizes[name] = 0
    half_served.pools.machines[name] = Machines(errors=(FillError(message, NOW - 60),))

    status = read_status(half_served.ports)
    (row,) = status.pools
    assert (row.nodes, row.chips, row.hosts_busy, row.dollars_per_hour) == (0, 0, 0, 0.0)
    words = [row.message, *(each.message for each in status.waiting)]
    (told,) = [each for each in words if message in each]
    assert f"node pool {name} gets no nodes: no capacity in us-east5-b (GKE: {message})" in told
    shown = [line.split() for line in run("status").stdout.splitlines() if line.startswith(name)]
    assert shown[0][2:5] == ["RUNNING", "0", "0/0"]
