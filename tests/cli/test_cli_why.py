"""`why` tells one history from many sources, each thing once, and says what it could not read."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import requests
from google.cloud.logging_v2 import Client

from cli.access.log_search import find_last_sweep
from cli.access.operator_access import Deployment
from cli.exit_codes import BadInput
from cli.explanation.history import Entry, read_logs, read_operations, read_pools
from cli.explanation.history_text import collapse
from cli.explanation.why import History, add_present, mark_repetitions, parse_workload
from cli.fleet.status import Status, read_status
from shared.edges.kubernetes_api import Connection, KubernetesApi
from shared.model import labels
from shared.model.errors import Denied, NotFound, ProvisionerError, Unavailable
from shared.model.names import build_pool_name
from tests.builders import CLUSTER, NOW, a_claim, a_go_pool, a_pod, a_pool, a_template
from tests.cli.cli_world import NOBODY, NOWHERE, CannedRest, a_deployment, put_in_place, read_json, run, show
from tests.engine.world import World
from tests.log_records import Records


class CannedLogs:
    """Cloud Logging's own client, on a wire that answers every question alike."""

    def __init__(self, status: int, answer: bytes) -> None:
        self.status, self.answer = status, answer
        self.asked = ""
        self.body: Any = {}

    def open(self, project: str) -> Client:
        client: Any = Client
        made: Client = client(project=project, credentials=NOBODY, _http=self, _use_grpc=False)
        return made

    def request(self, *, method: str, url: str, data: Any, **_: Any) -> requests.Response:
        """Return the answer, as a session does."""
        self.asked, self.body = f"{method} {url.partition('?')[0]}", json.loads(data)
        answer = requests.Response()
        answer.status_code, answer._content = self.status, self.answer
        answer.request = requests.Request(method, url).prepare()
        return answer


LINK = "https://container.googleapis.com/v1/projects/1/locations/us-east5/clusters/{}/nodePools/{}"
OPERATIONS = b"""{"operations": [
 {"name": "operation-1", "operationType": "CREATE_NODE_POOL", "status": "DONE", "targetLink": "%s",
  "startTime": "2027-01-15T08:00:00Z", "endTime": "2027-01-15T08:35:00Z", "error": {"message": "stockout"}},
 {"name": "operation-2", "operationType": "DELETE_NODE_POOL", "status": "RUNNING", "targetLink": "%s",
  "startTime": "2027-01-15T08:36:00Z"},
 {"name": "operation-3", "operationType": "CREATE_NODE_POOL", "status": "DONE", "targetLink": "%s",
  "startTime": "2027-01-15T08:00:00Z"}]}""" % (
    LINK.format("c", "ours").encode(),
    LINK.format("c", "ours").encode(),
    LINK.format("other", "ours").encode(),
)


def test_operations_on_its_pools_are_told_with_their_errors() -> None:
    rest = CannedRest(OPERATIONS)

    found = read_operations(rest, CLUSTER, {"ours"})

    assert rest.asked[-1] == "GET v1/projects/p/locations/us-east5/operations"
    assert [(each.text, each.bad) for each in found] == [
        ("creation began (operation-1)", False),
        ("creation failed after 2100 s (unknown): stockout", True),
        ("deletion began (operation-2)", False),
    ]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ('{"message": "[GCE_STOCKOUT]", "code": 8}', "(stockout): [GCE_STOCKOUT]"),
        ('{"message": "oh", "code": 13}', "(internal): oh"),
    ],
)
def test_the_creations_of_all_attempts_are_told_with_the_class_of_their_failure(error: str, told: str) -> None:
    """The pools of earlier attempts are gone, and nothing else names them."""
    body = """{"operations": [{"name": "operation-1", "operationType": "CREATE_NODE_POOL", "targetLink": "%s",
      "startTime": "2027-01-15T08:00:00Z", "endTime": "2027-01-15T08:01:00Z", "error": %s}]}"""
    rest = CannedRest((body % (LINK.format("c", build_pool_name(a_claim(), 2)), error)).encode())

    found = read_operations(rest, CLUSTER, {build_pool_name(a_claim())})

    assert [each.text for each in found] == ["creation began (operation-1)", f"creation failed after 60 s {told}"]
    assert read_operations(rest, CLUSTER, {build_pool_name(a_claim(owner_uid="another"))}) == []


def test_logs_are_asked_for_one_workload_of_one_day() -> None:
    logs = CannedLogs(
        200,
        b"""{"entries": [{"logName": "projects/p/logs/x", "timestamp": "2027-01-15T08:00:01Z",
        "severity": "WARNING", "jsonPayload":
        {"function": "provision", "pool": "p-1", "decision": "refuse", "reason": "zone_missing",
         "message": "no"}}]}""",
    )

    (entry,) = read_logs(logs.open, CLUSTER, "team-a", "train", now=NOW)

    assert (entry.about, entry.text, entry.bad) == ("provision p-1", "refuse: no [zone_missing]", True)
    assert logs.asked == "POST https://logging.googleapis.com/v2/entries:list"
    assert logs.body["resourceNames"] == ["projects/p"]
    assert (logs.body["orderBy"], logs.body["pageSize"]) == ("timestamp desc", 500)
    assert logs.body["filter"] == (
        'timestamp>="2027-01-14T08:00:00Z" AND jsonPayload.claim.name="train" '
        f'AND jsonPayload.claim.namespace="team-a" AND jsonPayload.claim.cluster="{CLUSTER}"'
    )


def test_a_sweep_that_never_ran_is_none() -> None:
    assert find_last_sweep(CannedLogs(200, b"{}").open, CLUSTER, now=NOW) is None


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (403, b'{"error": {"status": "PERMISSION_DENIED", "message": "no"}}', Denied),
        (503, b"<html>", Unavailable),
        (200, b"<html>", Unavailable),
        (200, b'{"entries": [{}]}', Unavailable),
    ],
)
def test_logs_that_cannot_be_read_are_one_of_our_errors(
    status: int, body: bytes, error: type[ProvisionerError]
) -> None:
    with pytest.raises(error):
        read_logs(CannedLogs(status, body).open, CLUSTER, "team-a", "train", now=NOW)


def test_pools_are_told_by_the_moment_on_their_label_and_the_go_provisioners_have_none() -> None:
    (entry,) = read_pools([a_pool("ERROR", error="stockout"), a_go_pool()])

    assert (entry.at, entry.bad) == (NOW - 60, True)
    assert entry.text == "requested 4 x ct6e-standard-4t for train-workers-0 (attempt 0); now ERROR: stockout"


def entry(about: str, message: str = "", at: float = 0.0) -> Entry:
    return Entry(at=at, source="event", about=about, text=message, message=message)


def test_what_is_said_twice_is_told_once_and_by_the_jobset() -> None:
    messages = [
        entry("Pod train-0", "creating"),
        entry("provision", "creating"),
        entry("JobSet train", "creating"),
        entry("JobSet train", "creating"),
        entry("provision", "waiting"),
        entry("sweep", "waiting"),
        entry("Pod train-0"),
        entry("Pod train-0"),
    ]

    assert [each.detail for each in mark_repetitions(messages)] == [
        True,
        True,
        False,
        True,
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_tells_it_within_its_width(width: int) -> None:
    history = History(CLUSTER, "default", "train", exists=True, now=Status(), unread=["logs: denied"])
    history.entries = [entry("JobSet train", "a long word " * 20, NOW)]

    lines = show(history, several=True, width=width, terminal=True)

    assert max(len(line) for line in lines) <= width
    assert lines[0] == "p/us-east5/c"
    assert lines[-1] == "not read: logs: denied"


def test_the_present_state_of_a_failed_creation_has_its_class_and_the_next_try() -> None:
    world = World()
    world.pools.add(CLUSTER, a_pool("ERROR", error="Internal error.", age_seconds=50))
    history = History(cluster=CLUSTER, namespace="default", name="train", now=read_status(world.ports))

    pool, waiting = show(history)

    assert pool.startswith(f"now: pool {build_pool_name(a_claim())} is ERROR: ")
    assert waiting.startswith("now: slice train-workers-0 waits: attempt 0 failed: ")
    assert "(GKE: Internal error.); next try at " in waiting
    assert {line.partition(" [")[2] for line in (pool, waiting)} == {"pool_failed, failure: internal]"}


@pytest.mark.parametrize(
    ("text", "namespace", "found"),
    [
        ("train", "", ("default", "train")),
        ("train", "a", ("a", "train")),
        ("a/train", "", ("a", "train")),
        ("a/train", "a", ("a", "train")),
    ],
)
def test_a_workload_is_named_with_or_without_its_namespace(
    text: str, namespace: str, found: tuple[str, str]
) -> None:
    assert parse_workload(text, namespace) == found


@pytest.mark.parametrize(
    ("text", "namespace"), [("a/train", "b"), ("Train", ""), ("a/b/c", ""), ("train/", ""), ("/train", "")]
)
def test_what_is_no_name_is_refused(text: str, namespace: str) -> None:
    with pytest.raises(BadInput, match="WORKLOAD"):
        parse_workload(text, namespace)


def test_sources_that_cannot_be_read_are_named_and_end_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = a_deployment()
    deployment.apis[CLUSTER] = KubernetesApi(Connection(url=NOWHERE))
    put_in_place(monkeypatch, deployment)

    result = run("why", "unheard-of")

    assert result.exit_code == 3
    assert "workload default/unheard-of could not be read: " in result.stderr
    assert "not read: Events: " in result.stderr


def test_repetitions_are_one_row_with_their_number_and_the_last_one() -> None:
    messages = [
        Entry(
            at=NOW - 60 * ago, source="log", about=f"sweep p-{ago}", text=f"wait: until 08:0{ago} UTC [stockout]"
        )
        for ago in (9, 5, 2)
    ]
    other = Entry(at=NOW - 200, source="log", about="sweep p-1", text="create: creating [pool_absent]")

    found = collapse([*messages[:2], other, messages[2]], now=NOW)

    assert [(each.at, each.text) for each in found] == [
        (NOW - 540, "3 x, last 2m ago: wait: until 08:02 UTC [stockout]"),
        (NOW - 200, "create: creating [pool_absent]"),
    ]


def a_history(*entries: Entry) -> History:
    return History(CLUSTER, "default", "train", kind="JobSet", exists=True, entries=list(entries))


def test_a_later_workload_of_the_same_name_is_divided_from_the_earlier_one() -> None:
    first = Entry(at=NOW - 90, source="log", about="sweep p", text="same", owner_uid="one")
    second = Entry(at=NOW - 60, source="log", about="sweep p", text="same", owner_uid="two")

    lines = show(a_history(first, second))

    assert [line.split("   ")[-1] for line in lines[1:4]] == [
        "same",
        "another JobSet of this name, UID two",
        "same",
    ]


def let_tell(
    monkeypatch: pytest.MonkeyPatch, tell: Callable[..., History], deployment: Deployment | None = None
) -> None:
    """Let `why` find these histories, and nothing of the present state."""
    monkeypatch.setattr("cli.explanation.asking_why.tell", tell)
    monkeypatch.setattr("cli.explanation.asking_why.add_present", lambda *_: None)
    put_in_place(monkeypatch, deployment or a_deployment())


def test_what_is_older_is_left_out_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (Entry(at=NOW - ago, source="event", about="JobSet train", text=f"{ago}") for ago in (900, 60))
    let_tell(monkeypatch, lambda *_: a_history(old, new))

    assert len(read_json("why", "train")[0]["entries"]) == 2
    assert [each["text"] for each in read_json("why", "train", "--since=5m")[0]["entries"]] == ["60"]
    assert "--since: is not a time" in run("why", "train", "--since=soon").stderr


def test_a_history_is_followed_until_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    history = a_history(Entry(at=NOW, source="event", about="JobSet train", text="first"))
    later: list[Entry] = []

    def pause(_seconds: float) -> None:
        if later:
            raise KeyboardInterrupt
        later.append(Entry(at=NOW + 1, source="event", about="JobSet train", text="second"))

    monkeypatch.setattr("cli.repeating.time.sleep", pause)
    let_tell(monkeypatch, lambda *_: replace(history, entries=[*history.entries, *later]))

    result = run("why", "train", "--follow")

    assert result.exit_code == 0
    assert [line.split("   ")[-1].strip() for line in result.stdout.splitlines()] == [
        "WHAT",
        "first",
        "",
        "now: JobSet default/train has no pools with its labels, and no pod that waits for one",
        "second",
    ]
    assert run("why", "train", "--follow", "--json").exit_code == 2


def test_a_state_that_cannot_be_read_is_unknown_and_not_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    history = a_history(Entry(at=NOW, source="event", about="JobSet train", text="made"))
    unread = f"{CLUSTER}: this identity does not have the rights"
    monkeypatch.setattr("cli.explanation.asking_why.tell", lambda *_: history)
    monkeypatch.setattr("cli.explanation.why.read_status", lambda *_, **__: Status(errors=[unread]))
    monkeypatch.setattr("cli.explanation.why._add_suspension", lambda *_: None)
    put_in_place(monkeypatch, a_deployment())

    result = run("why", "train")

    assert result.exit_code == 1, result.exception
    assert result.stdout.splitlines()[-2:] == [
        "now: JobSet default/train has an unknown state, because a source could not be read",
        f"not read: {unread}",
    ]


def test_a_pod_that_opts_out_is_said_to_wait_for_something_else() -> None:
    world = World()
    world.cluster.add(
        a_pod(unschedulable_since=NOW - 60, template=a_template(selectors={labels.NODE_POOL: "mine"}))
    )
    history = a_history()
    add_present(history, a_deployment(world))

    (line,) = show(history)

    assert line.startswith("now: pod train-workers-0-0-")
    assert "waits, and no node pool is created for it: " in line
    assert line.endswith("[demand_bound_elsewhere]")


def test_an_unknown_workload_is_told_with_the_kinds_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = a_deployment(World(Records(), kinds=("JobSet", "RayCluster")))

    class NothingInstalled(KubernetesApi):
        def get(self, path: str, kind: Any, params: Any = None) -> Any:
            raise NotFound(path)

    deployment.apis[CLUSTER] = NothingInstalled(Connection(url=NOWHERE))
    let_tell(monkeypatch, lambda *_: History(CLUSTER, "default", "train"), deployment)

    output = run("why", "train").stderr

    assert "JobSet (not installed)" in output
    assert "LeaderWorkerSet (not in the setting kinds)" in output
