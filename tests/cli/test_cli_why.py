"""`why` tells one history from many sources, each thing once, and says what it could not read."""

import msgspec
import pytest

from cli.exit_codes import BadInput
from cli.explanation.why import find_owner, parse_workload, read_logs
from shared.edges.connection import Connection
from shared.edges.kubernetes import KubernetesApi
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
