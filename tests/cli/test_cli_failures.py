"""`status` and `doctor` know the creations that failed and the requests that GKE refused."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from shared.core.identity.creations import Creation

from cli.access.log_search import Answered
from cli.diagnosis.findings import Finding, Result, merge_unanswered
from cli.exit_codes import say
from cli.explanation.why import History
from cli.fleet.failed_creations import find_failures
from cli.fleet.status import read_status
from shared.model import labels
from shared.model.errors import Denied, Unavailable
from shared.model.names import build_pool_name
from shared.model.times import format_time
from tests.builders import CLUSTER, JOBSET_UID, NOW, ZONE, a_claim, a_pod, a_pool
from tests.cli.cli_world import read_json, run, show
from tests.component.world import World

CLAIM = {
    "cluster": CLUSTER,
    "kind": "JobSet",
    "namespace": "default",
    "name": "train",
    "owner_uid": JOBSET_UID,
    "slice": "train-workers-0",
}
HOME = ("default", "train", "train-workers-0", JOBSET_UID)
WORDS = "[GCE_STOCKOUT]"


def failed(attempt: int, *, error: str = WORDS, code: int = 8, ago: float = 60.0) -> Creation:
    """The creation of one attempt of the plain slice; an empty error succeeded."""
    name = build_pool_name(a_claim(), attempt)
    at = NOW - ago
    return Creation(pool=name, ended=True, error=error, code=code, began_at=at - 30, ended_at=at)


def refused(*, reason: str = "throttled", ago: float = 60.0, **changes: Any) -> Answered:
    """A record of an answer about the plain slice that GKE refused."""
    fields = {"claim": CLAIM, "decision": "none", "message": "Quota exceeded (HTTP 429)", **changes}
    return Answered(at=NOW - ago, reason=reason, **fields)


def waiting(world: World, *creations: Creation) -> World:
    """The plain slice waits, and GKE has these operations."""
    world.cluster.add(a_pod(unschedulable_since=NOW - 4000))
    for each in creations:
        world.pools.creations[CLUSTER, each.pool] = each
    return world


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Let the functions' logs have these records."""

    def have(*answers: Answered) -> Any:
        monkeypatch.setattr("cli.fleet.failed_creations.read_answers", lambda *_args, **_options: list(answers))
        return object()

    return have


def test_nine_failed_creates_need_a_person_while_the_tenth_is_under_way(world: World) -> None:
    name = build_pool_name(a_claim(), 9)
    world.pools.add(CLUSTER, a_pool("PROVISIONING", name=name, extra_labels={labels.ATTEMPT: "9"}, age_seconds=20))
    waiting(world, *(failed(number, ago=900 - 60 * number) for number in range(9)))
    since, last = format_time(NOW - 900), format_time(NOW - 420)

    result = run("status")

    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert lines[6:8] == [
        "FAILED SLICE      WORKLOAD        TIMES   LAST FAILURE   ZONE         SINCE                  LAST",
        f"train-workers-0   default/train   9       stockout       us-east5-b   {since}   7m ago",
    ]
    told = f"slice train-workers-0 has failed creations: 9 x stockout in {ZONE} since {since}, last at {last}"
    assert lines[-2:] == [
        "1 pool with 16 chips, 1 slice waiting; 1 needs a person",
        f"default/train: {told}: {WORDS}",
    ]


@pytest.mark.parametrize(
    ("answers", "code", "shown"),
    [
        ([], 0, []),
        ([refused()], 0, [(1, "throttled")]),
        ([refused(ago=60 * number) for number in (3, 2, 1)], 1, [(3, "throttled")]),
        ([refused(reason="permission_denied")], 1, [(1, "permission_denied")]),
        ([refused(reason="stockout", decision="wait", failure="stockout")], 0, []),
        ([refused(reason="shape_unsupported", decision="refuse")], 0, []),
        ([refused(claim=CLAIM | {"owner_uid": "an earlier workload of that name"})], 0, []),
    ],
)
def test_a_refused_create_leaves_its_trace_in_status(
    world: World, logs: Callable[..., Any], answers: list[Answered], code: int, shown: list[tuple[int, str]]
) -> None:
    status = read_status(waiting(world).ports, open_logs=logs(*answers))

    assert [(each.count, each.failure) for each in status.failures] == shown
    assert min(status.stuck, 1) == code


def test_why_does_not_say_that_it_creates_what_gke_refuses(
    world: World, logs: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_logs = logs(refused(reason="quota_exceeded"))
    history = History(CLUSTER, "default", "train", now=read_status(waiting(world).ports, open_logs=open_logs))

    (line,) = show(history)

    assert line.startswith("now: slice train-workers-0 got no node pool: quota_exceeded in ")


def test_a_later_success_ends_the_failures_and_an_accepted_request_the_refusals() -> None:
    first, second = failed(0, ago=300), failed(1, ago=200, error="")
    known = {second.pool.split("-")[-2]: HOME}

    assert find_failures([first, second], [refused(ago=250)], known) == []
    assert [each.failure for each in find_failures([first], [refused(ago=400), refused(ago=250)], known)] == [
        "stockout",
        "throttled",
    ]
    running = dataclasses.replace(second, ended=False, ended_at=None)
    assert [each.failure for each in find_failures([first, running], [refused(ago=250)], known)] == ["stockout"]


def test_the_record_of_the_request_tells_the_zone_of_its_pool() -> None:
    created = refused(decision="create", reason="pool_absent", pool=failed(1).pool, zone="us-east1-c")

    (found,) = find_failures([failed(1)], [created], {})

    assert (found.slice, found.zone, found.error) == (HOME, "us-east1-c", WORDS)


def test_what_cannot_be_read_is_named_and_hides_nothing(world: World) -> None:
    waiting(world)
    for _ in range(2):  # the functions' code and the command itself
        world.pools.fail_next("list_creations", Denied("container.operations.list"))
    world.cluster.fail_next("find_pools_of_nodes", Unavailable("no"))
    world.pools.add(CLUSTER, a_pool(claim=a_claim(slice_key="default/train-workers-1")))

    result = run("status")

    assert result.exit_code == 0
    assert "1 pool with 16 chips, 1 slice waiting" in result.stdout
    assert f"not read: busy hosts of {CLUSTER}: no\n" in result.stderr
    assert f"not read: GKE's operations of {CLUSTER}: container.operations.list\n" in result.stderr


def test_busy_hosts_and_idle_chips_are_counted(world: World) -> None:
    second = a_pool(claim=a_claim(slice_key="default/train-workers-1"))
    lent = a_pool(claim=a_claim(name="other", owner_uid="other", slice_key="default/other-workers-0"))
    world.pools.add(CLUSTER, a_pool(), second, lent)
    for pool in (a_pool(), second, lent):
        world.cluster.nodes[pool.name] = [f"{pool.name}-{host}" for host in range(4)]
    world.cluster.add(a_pod(node_name=f"{a_pool().name}-0"))
    for host in (0, 1, 1):
        world.cluster.bind(lent.name, workload="guest", node=f"{lent.name}-{host}")

    result = run("status")

    hosts = {line.split()[0]: line.split()[4] for line in result.stdout.splitlines()[1:4]}
    assert hosts == {a_pool().name: "1/4", second.name: "0/4", lent.name: "2/4"}
    assert "3 pools with 48 chips (36 idle)" in result.stdout
    rows = read_json("status")["pools"]
    assert {row["pool"]: row["chips_idle"] for row in rows} == {a_pool().name: 12, second.name: 16, lent.name: 8}


def test_a_deployment_that_does_not_answer_is_one_error_and_not_0_pools(world: World) -> None:
    pool = "HTTPConnectionPool(host='127.0.0.1', port=9): Max retries exceeded with url: /v1/x (Caused by"
    message = f"{pool} NewConnectionError('Failed to establish a new connection: [Errno 111] Connection refused'))"
    world.pools.down_clusters[CLUSTER] = Unavailable(f"no answer: {message}")

    result = run("status")

    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == f"error: {CLUSTER}: 127.0.0.1:9 does not answer (Connection refused)\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "GET /api: HTTPSConnection(host='h', port=1): Read timed out. (read timeout=5)",
            "h:1 does not answer (timed out)",
        ),
        ("HTTPSConnectionPool(host='h', port=1): odd", "h:1 does not answer"),
        ("container.clusters.get is missing", "container.clusters.get is missing"),
    ],
)
def test_no_library_is_quoted_where_nothing_answers(text: str, shown: str) -> None:
    assert say(text) == shown


def test_one_missing_login_is_one_finding() -> None:
    message = "no answer (permission_denied): there are no Google credentials: log in with: gcloud auth login"
    checks = [Finding(check=f"c{number}", result=Result.BAD, text=message, mend="x") for number in range(16)]
    fine = Finding(check="fine", result=Result.OK, text="ok")

    found = merge_unanswered([*checks, fine])

    assert [(each.check, each.mend) for each in found] == [("c0", ""), ("fine", "")]
    assert found[0].text.startswith(f"{message}; for the same cause not checked: c1, c2, ")
