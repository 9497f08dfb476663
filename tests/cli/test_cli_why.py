"""`why` tells one history from many sources, each thing once, and says what it could not read."""

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from rich.console import Console

from cli.access.connections import Deployment
from cli.exit_codes import BadInput
from cli.explanation.history_text import collapse, print_history
from cli.explanation.why import (
    Entry,
    History,
    explain_suspension,
    find_owner,
    list_dates,
    parse_workload,
    read_logs,
)
from cli.fleet.status import Status
from cli.printing import Format
from shared.edges.connection import Connection
from shared.edges.kubernetes import JsonObject, KubernetesApi
from shared.kinds.table import choose_kinds
from tests.builders import CLUSTER, NOW, a_pod
from tests.cli.cli_world import NOWHERE, a_deployment, list_printed, log_entries, put_in_place, read_json, run

(JOBSET,) = choose_kinds(("JobSet",))


def test_logs_are_asked_for_one_workload_of_one_day() -> None:
    fields = {"function": "provision", "pool": "p-1", "decision": "refuse"}
    fields |= {"reason": "zone_missing", "message": "no"}
    open_logs, asked = log_entries(NOW + 1, fields, severity="WARNING")

    (entry,) = read_logs(open_logs, CLUSTER, "team-a", "train", now=NOW)

    assert (entry.about, entry.text, entry.bad) == ("provision p-1", "refuse: no [zone_missing]", True)
    assert asked == [
        {
            "filter_": 'timestamp>="2027-01-14T08:00:00.000000Z" AND jsonPayload.claim.name="train" '
            f'AND jsonPayload.claim.namespace="team-a" AND jsonPayload.claim.cluster="{CLUSTER}"',
            "order_by": "timestamp desc",
            "page_size": 500,
            "max_results": 500,
        }
    ]


def entry(about: str, text: str = "", at: float = 0.0) -> Entry:
    return Entry(at=at, source="event", about=about, text=text)


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_tells_it_within_its_width(width: int) -> None:
    history = History(CLUSTER, "default", "train", exists=True, now=Status(), unread=["logs: denied"])
    history.entries = [entry("JobSet train", "a long word " * 20, NOW)]

    def print_it(console: Console) -> None:
        print_history(console, history, several=True, form=Format.TABLE, now=NOW)

    lines = list_printed(print_it, width=width, terminal=True)

    assert max(len(line) for line in lines) <= width
    assert lines[0] == "p/us-east5/c"
    assert lines[-1] == "not read: logs: denied"


@pytest.mark.parametrize(
    ("words", "namespace", "found"),
    [
        ("train", "", ("", "default", "train")),
        ("train", "a", ("", "a", "train")),
        ("a/train", "", ("", "a", "train")),
        ("a/train", "a", ("", "a", "train")),
        ("jobset/train", "a", ("JobSet", "a", "train")),
        ("jobset train", "", ("JobSet", "default", "train")),
        ("jobsets.jobset.x-k8s.io/train", "", ("JobSet", "default", "train")),
        ("lws/train", "", ("LeaderWorkerSet", "default", "train")),
        ("deploy/web", "", ("Deployment", "default", "web")),
        ("pod/train-0-0-abcde", "", ("Pod", "default", "train-0-0-abcde")),
    ],
)
def test_a_workload_is_named_as_for_kubectl(words: str, namespace: str, found: tuple[str, str, str]) -> None:
    assert parse_workload(words.split(), namespace) == found


def test_of_a_pod_its_workload_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = a_pod()
    controller = {"apiVersion": pod.controller_api_version, "kind": pod.controller_kind}
    owners = [controller | {"name": pod.controller_name, "uid": "u", "controller": True}]
    body = {"metadata": {"name": pod.name, "labels": dict(pod.template.labels), "ownerReferences": owners}}
    deployment, api = a_deployment(), KubernetesApi(Connection(url=NOWHERE))
    monkeypatch.setattr(api, "get", lambda _path, kind: msgspec.convert(body, kind))
    deployment.apis[CLUSTER] = api

    assert find_owner(deployment, CLUSTER, "default", pod.name) == ("JobSet", "train")


@pytest.mark.parametrize(
    ("text", "namespace"), [("a/train", "b"), ("Train", ""), ("a/b/c", ""), ("train/", ""), ("/train", "")]
)
def test_what_is_no_name_is_refused(text: str, namespace: str) -> None:
    with pytest.raises(BadInput, match="WORKLOAD"):
        parse_workload([text], namespace)


def test_repetitions_are_one_row_with_their_number_and_the_last_one() -> None:
    messages = [
        Entry(
            at=NOW - 60 * ago, source="log", about=f"collect p-{ago}", text=f"wait: until 08:0{ago} UTC [stockout]"
        )
        for ago in (9, 5, 2)
    ]
    other = Entry(at=NOW - 200, source="log", about="collect p-1", text="create: creating [pool_absent]")

    found = collapse([*messages[:2], other, messages[2]], now=NOW)

    assert [(each.at, each.text) for each in found] == [
        (NOW - 540, "3 x, last 2m ago: wait: until 08:02 UTC [stockout]"),
        (NOW - 200, "create: creating [pool_absent]"),
    ]


def a_history(*entries: Entry) -> History:
    return History(CLUSTER, "default", "train", kind="JobSet", exists=True, entries=list(entries))


def let_tell(
    monkeypatch: pytest.MonkeyPatch, tell: Callable[..., History], deployment: Deployment | None = None
) -> None:
    """Let `why` find these histories, and nothing of the present state."""
    monkeypatch.setattr("cli.explanation.history_text.tell", tell)
    put_in_place(monkeypatch, deployment or a_deployment())


def test_what_is_older_is_left_out_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (Entry(at=NOW - ago, source="event", about="JobSet train", text=f"{ago}") for ago in (900, 60))
    let_tell(monkeypatch, lambda *_: a_history(old, new))

    assert len(read_json("why", "train")[0]["entries"]) == 2
    assert read_json("why", "train", "--since=5m")[0]["entries"] == [
        {"time": "2027-01-15T07:59:00Z", **dataclasses.asdict(new)}
    ]
    assert "--since: is not a time" in run("why", "train", "--since=soon").stderr


def test_a_history_is_shown_again_until_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("cli.printing.time.sleep", pause)
    let_tell(monkeypatch, lambda *_: a_history(Entry(at=NOW, source="event", about="JobSet train", text="made")))

    result = run("why", "train", "--watch")

    assert (result.exit_code, pauses) == (0, [5.0, 5.0])
    assert result.stdout.count("now: JobSet default/train has no pools with its labels") == 2


def test_a_state_that_cannot_be_read_is_unknown_and_not_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    history = a_history(Entry(at=NOW, source="event", about="JobSet train", text="made"))
    history.now.errors = history.unread = [f"{CLUSTER}: this identity does not have the rights"]
    let_tell(monkeypatch, lambda *_: history)

    result = run("why", "train")

    assert result.exit_code == 1, result.exception
    assert result.stdout.splitlines()[-2:] == [
        "now: JobSet default/train has an unknown state, because a source could not be read",
        f"not read: {history.unread[0]}",
    ]


def written(manager: str, at: str) -> dict[str, Any]:
    return {"manager": manager, "time": at, "fieldsV1": {"f:spec": {"f:suspend": {}}}}


def a_suspended(marks: dict[str, str] | None = None, *writers: dict[str, Any]) -> JsonObject:
    metadata = {"name": "train", "namespace": "default", "labels": marks or {}, "managedFields": list(writers)}
    return JsonObject({"metadata": metadata, "spec": {"suspend": True}})


def test_the_last_writer_of_suspend_and_the_command_that_resumes_are_named() -> None:
    writers = [written("kubectl-edit", "2026-11-26T10:00:00Z"), written("controller", "2026-11-26T09:00:00Z")]
    other = {"manager": "kubectl", "time": "2026-11-26T11:00:00Z", "fieldsV1": {}}

    assert explain_suspension(JOBSET, a_suspended(None, *writers, other)) == (
        "is suspended by kubectl-edit, so it needs no pools; to resume it: kubectl patch jobsets train -n default "
        """--type=merge -p '{"spec":{"suspend":false}}'"""
    )
    assert explain_suspension(JOBSET, a_suspended({"kueue.x-k8s.io/queue-name": "tpu-queue"})).endswith(
        "Kueue resumes it when its queue tpu-queue admits it (kubectl describe workloads -n default)"
    )


def test_dates_and_conditions_of_a_workload_are_entries() -> None:
    moment = "2027-01-15T08:00:00Z"
    condition = {"type": "Suspended", "status": "False", "reason": "Resumed", "lastTransitionTime": moment}
    body = {"metadata": {"name": "train", "creationTimestamp": moment}, "status": {"conditions": [condition]}}

    entries = list_dates(JOBSET, JsonObject(body))

    assert [(each.at, each.about, each.text) for each in entries] == [
        (NOW, "JobSet train", "created"),
        (NOW, "JobSet train", "not Suspended (Resumed)"),
    ]
