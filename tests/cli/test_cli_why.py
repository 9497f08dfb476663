"""`why` tells one history from many sources, each thing once, and says what it could not read."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cli.exit_codes import BadInput
from cli.explanation.why import find_owner, parse_workload, read_events, read_logs
from shared.edges.connection import Connection
from shared.edges.kubernetes import JsonObject, KubernetesApi
from shared.model.times import format_time
from tests.builders import CLUSTER, NOW, a_pod
from tests.cli.cli_world import NOWHERE, a_deployment, log_entries, run


def test_logs_are_asked_for_one_workload_of_one_day() -> None:
    open_logs, asked = log_entries(NOW + 1, {}, severity="WARNING")

    (entry,) = read_logs(open_logs, CLUSTER, "team-a", "train", now=NOW)

    assert entry.bad
    assert asked == [
        {
            "filter_": 'timestamp>="2027-01-14T08:00:00.000000Z" AND jsonPayload.claim.name="train" '
            f'AND jsonPayload.claim.namespace="team-a" AND jsonPayload.claim.cluster="{CLUSTER}"',
            "order_by": "timestamp desc",
            "page_size": 500,
            "max_results": 500,
        }
    ]


EVENTS = (
    ("JobSet train", "Normal", "Made", "a", 2, "Made: a (2 times, the last 60 s later)"),
    ("Pod train-0", "Warning", "Failed", "b", 1, "Failed: b"),
    ("Pod train-1", "Warning", "Failed", "b", 1, ""),
    ("Pod train-0", "Normal", "Pulled", "c", 1, ""),
    ("Pod other-0", "Warning", "Failed", "d", 1, ""),
    ("JobSet other", "Normal", "Made", "e", 1, ""),
    ("Service train", "Normal", "Made", "f", 1, ""),
    ("Pod other-0", "Warning", "NodePoolPending", "g", 1, ""),
    ("Pod train-0", "Warning", "NodePoolPending", "h", 1, "NodePoolPending: h"),
)
"""About what, of which type, with which reason and message, how often; and what is told of it."""


def test_of_events_those_of_the_workload_and_the_first_warnings_of_its_parts_are_told() -> None:
    bodies = [
        {"involvedObject": dict(zip(("kind", "name"), about.split(), strict=True)), "type": kind, "reason": reason}
        | {"message": message, "count": count, "firstTimestamp": format_time(NOW)}
        | {"lastTimestamp": format_time(NOW + 60)}
        for about, kind, reason, message, count, _ in EVENTS
    ]
    api: Any = SimpleNamespace(read_each=lambda *_: map(JsonObject, bodies))

    entries = [(each.about, each.text, each.bad) for each in read_events(api, "default", "train", logged=False)]
    beside_logs = [each.text for each in read_events(api, "default", "train", logged=True)]

    assert entries == [(about, text, kind == "Warning") for about, kind, *_, text in EVENTS if text]
    assert beside_logs == [text for _, text, _ in entries if "NodePool" not in text], "the log has these"


@pytest.mark.parametrize(
    ("words", "namespace", "workload"),
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
def test_a_workload_is_named_as_for_kubectl(words: str, namespace: str, workload: tuple[str, str, str]) -> None:
    assert parse_workload(words.split(), namespace) == workload


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


@pytest.mark.usefixtures("world")
def test_a_history_is_shown_again_until_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("cli.printing.time.sleep", pause)

    result = run("why", "train", "--watch")

    assert (result.exit_code, pauses) == (0, [5.0, 5.0])
    assert result.stdout.count("now: JobSet default/train has no pools with its labels") == 2
