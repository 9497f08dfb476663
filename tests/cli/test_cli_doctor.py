"""`doctor` finds what is broken, on a real broker and Kubernetes API, and names what mends it."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cli.access.cli_settings import PUSHED
from cli.access.operator_access import Deployment
from cli.diagnosis import doctor
from cli.diagnosis.doctor import (
    KUEUE_PERMISSIONS,
    Finding,
    Result,
    check_backlog,
    check_cluster,
    check_tick,
    examine,
    list_permissions,
)
from shared.edges.connection import Connection
from shared.edges.kubernetes import KubernetesApi
from shared.kinds.table import KIND_NAMES, KINDS
from shared.model import labels
from shared.model.errors import Denied
from shared.settings import ClusterSettings
from tests.builders import CLUSTER, NOW
from tests.cli.cli_world import (
    NOWHERE,
    CannedRest,
    Reviewing,
    a_deployment,
    list_granted,
    put_in_place,
    run,
    with_own,
    with_settings,
)
from tests.contract.stand_ins import ask, stand_in
from tests.engine.world import FakeCluster

ROOT = Path(__file__).resolve().parents[2]
CHART = "helm upgrade tpu-provisioner-exporter infra/helm --namespace default --reuse-values"
P = "projects/p"
TOPIC, DEAD_LETTERS = f"{P}/topics/events", f"{P}/topics/letters"
NAMES = {
    "provision": f"{P}/subscriptions/provision",
    "collect": f"{P}/subscriptions/collect",
    "provision_ends": f"{P}/subscriptions/provision-ends",
    "collect_ends": f"{P}/subscriptions/collect-ends",
    "dead_letters": f"{P}/subscriptions/letters",
}
LETTERS = f"{P}/subscriptions/letters-2"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    with stand_in(tmp_path_factory.mktemp("cluster"), "standins.cluster", "serve") as ports:
        yield KubernetesApi(Connection(url=ports["url"]))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Pub/Sub with the deployment's subscriptions, and one of dead letters for a test."""
    with stand_in(tmp_path_factory.mktemp("broker"), "standins.google", "serve", "--pubsub") as ports:
        for topic, names in ((DEAD_LETTERS, NAMES.values()), (f"{DEAD_LETTERS}-2", [LETTERS])):
            ask("PUT", f"{ports['rest']}/v1/{topic}", {})
            for name in names:
                ask("PUT", f"{ports['rest']}/v1/{name}", {"topic": topic})
        yield ports["rest"]


@pytest.fixture
def deployment(broker: str, kubernetes: KubernetesApi) -> Deployment:
    """A deployment that lacks nothing but functions, logs and metrics."""
    whole = a_deployment(pubsub=broker, topic=TOPIC, subscriptions=dict(NAMES))
    return dataclasses.replace(whole, apis={CLUSTER: kubernetes})


def found_by(deployment: Deployment, check: str) -> list[Finding]:
    """Return what was found under one heading."""
    return [each for each in examine(deployment) if each.check.endswith(check)]


def bad(deployment: Deployment) -> list[str]:
    """Return the headings of what is bad."""
    return [each.check for each in examine(deployment) if each.result is Result.BAD]


def test_a_deployment_that_lacks_nothing_is_fine(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(monkeypatch, deployment)

    result = run("doctor")

    assert result.exit_code == 0, result.stdout
    message = f"this identity has all {len(list_permissions(KINDS))} permissions"
    assert re.search(rf"^ok +p/us-east5/c permissions +{message}", result.stdout, re.MULTILINE)
    assert result.stdout.splitlines()[-1] == "11 ok, 12 skipped"


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ("report-only", f"kubectl label namespace tpu-provisioner {labels.MODE}-"),
        ("off", f"kubectl label namespace tpu-provisioner {labels.MODE}-"),
        (None, f"{CHART}, or set TPU_PROVISIONER_OWN_NAMESPACE"),
    ],
)
def test_an_emergency_stop_is_found(deployment: Deployment, value: str | None, fix: str) -> None:
    cluster = deployment.ports.clusters[CLUSTER]
    assert isinstance(cluster, FakeCluster)
    del cluster.labels["tpu-provisioner"]
    if value:
        cluster.labels["tpu-provisioner"] = {labels.MODE: value}

    (found,) = found_by(deployment, "emergency stop")

    assert (found.result, found.fix) == (Result.WARN, fix)
    assert found.text.startswith("on (report-only): ")


def test_a_subscription_that_is_absent_is_found(deployment: Deployment) -> None:
    absent = {name: f"{P}/subscriptions/no-{name}" for name in ("collect_ends", "dead_letters")}
    lacking = with_own(deployment, subscriptions=NAMES | absent)

    (finding,) = found_by(lacking, "subscriptions")
    (counted,) = found_by(lacking, "dead letters")

    assert found_by(deployment, "subscriptions")[0].text == "all 5 exist"
    assert (finding.result, finding.text) == (Result.BAD, f"these do not exist: {', '.join(absent.values())}")
    assert "Resource not found" in counted.text


def test_dead_letters_are_counted_by_reason_and_stay(broker: str, deployment: Deployment) -> None:
    body = {"data": "eA==", "attributes": {"CloudPubSubDeadLetterSourceSubscription": "x-collect"}}
    ask("POST", f"{broker}/v1/{DEAD_LETTERS}-2:publish", {"messages": [body, body]})
    burdened = with_own(deployment, subscriptions=NAMES | {"dead_letters": LETTERS})

    for _ in range(2):
        (finding,) = found_by(burdened, "dead letters")
        assert (finding.result, finding.text) == (Result.WARN, "2: 2 attempts_exhausted")
        assert finding.fix == "tpu-provisioner dead-letters list"


def test_gke_that_refuses_is_found_and_hides_nothing_else(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_cluster: str) -> None:
        raise Denied("container.clusters.get is missing")

    monkeypatch.setattr(deployment.ports.pools, "list", refuse)

    (finding,) = found_by(deployment, "c GKE")

    message = "no answer (permission_denied): container.clusters.get is missing"
    assert finding.text == message
    assert finding.fix.startswith("gcloud container clusters describe c --location=us-east5 --project=p")
    assert bad(deployment) == ["p/us-east5/c GKE"]


def test_kubernetes_out_of_reach_is_found(deployment: Deployment) -> None:
    away = dataclasses.replace(deployment, apis={CLUSTER: KubernetesApi(Connection(url=NOWHERE))})

    (found,) = [each for each in examine(away) if each.result is Result.BAD]
    first, *others = (f"p/us-east5/c {each}" for each in (*KIND_NAMES, "permissions"))
    message = "no answer (unavailable): 127.0.0.1:9 does not answer (Connection refused)"
    assert (found.check, found.text) == (first, f"{message}; for the same cause not checked: {', '.join(others)}")


@pytest.mark.parametrize(("token_file", "result"), [("", Result.WARN), ("token", Result.BAD)])
def test_missing_rights_are_bad_for_the_functions_own_account(
    deployment: Deployment, tmp_path: Path, token_file: str, result: Result
) -> None:
    there = ClusterSettings(endpoint=NOWHERE, token_file=token_file)
    deployment.apis[CLUSTER] = Reviewing(lambda asked: asked["verb"] in ("get", "list"))

    (finding,) = found_by(with_settings(deployment, clusters={CLUSTER: there}), "c permissions")

    assert (finding.result, finding.text) == (
        result,
        "this identity does not have the permissions: patch nodes, create events, patch events",
    )


def test_the_limits_are_told(deployment: Deployment) -> None:
    limited = with_settings(deployment, limit_chips=64, limit_chips_per_namespace=16)

    assert found_by(deployment, "settings")[0].text == "1 cluster; no limit"
    told = "1 cluster; at most 64 chips in a cluster, at most 16 chips in a namespace"
    assert found_by(limited, "settings")[0].text == told


@pytest.mark.parametrize(
    ("last", "result", "text"),
    [
        (None, Result.BAD, "no log record for a day, but it must run every minute"),
        ((NOW - 400, {}), Result.BAD, "it ended 400 s ago, but it must run every minute"),
        ((NOW - 20, {"create": 1}), Result.OK, "ended 20 s ago"),
        ((NOW - 20, {"errors": 2, "left": 3}), Result.WARN, "ended 20 s ago; it failed for 2 "),
    ],
)
def test_the_ticks_of_each_cluster_and_function_are_found(
    deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    last: tuple[float, dict[str, int]] | None,
    result: Result,
    text: str,
) -> None:
    monkeypatch.setattr("cli.diagnosis.doctor.find_last_tick", lambda *_names, **_rest: last)

    found = check_tick(dataclasses.replace(deployment, open_logs=Mock()), "collect", CLUSTER)

    assert found.result == result
    assert found.text.startswith(text)


@pytest.mark.parametrize(
    ("ago", "result", "text"),
    [
        (60, Result.OK, "published its last event 60s ago"),
        (None, Result.WARN, "published no event in the last day"),
    ],
)
def test_what_the_exporter_published_last_is_found(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, ago: float | None, result: Result, text: str
) -> None:
    last = None if ago is None else NOW - ago
    monkeypatch.setattr(doctor, "find_last_report", lambda *_names, **_now: last)

    found = doctor.check_events(dataclasses.replace(deployment, open_logs=Mock()), CLUSTER)

    assert (found.result, found.text.startswith(text)) == (result, True)


def with_lease(deployment: Deployment, name: str) -> Deployment:
    return with_own(deployment, lease_name=name, lease_namespace="default")


def test_a_lease_says_whether_an_exporter_leads(deployment: Deployment, kubernetes: KubernetesApi) -> None:
    renewed = "2027-01-15T08:00:00.000000Z"  # the moment of the world's clock
    for name, holder in (("led", "exporter-a"), ("free", "")):
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
        kubernetes.create(LEASES, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}, Any)

    (led,) = found_by(with_lease(deployment, "led"), "c exporter")
    (free,) = found_by(with_lease(deployment, "free"), "c exporter")
    (absent,) = found_by(with_lease(deployment, "absent"), "c exporter")

    assert (led.result, led.text) == (Result.OK, "exporter-a is the leader and renewed its Lease 0 s ago")
    assert (free.result, free.text.partition(":")[0]) == (Result.BAD, "no exporter is the leader")
    assert (absent.result, absent.text) == (Result.BAD, "Lease default/absent does not exist: no exporter has run")

    clock: Any = deployment.ports.clock
    clock.pause(300)
    (old,) = found_by(with_lease(deployment, "led"), "c exporter")
    assert (old.result, "300 s ago" in old.text, "kubectl" in old.fix) == (Result.BAD, True, True)


def test_a_function_that_does_not_answer_is_found(deployment: Deployment) -> None:
    assert bad(with_own(deployment, function_uris={"collect": NOWHERE})) == ["function collect"]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (b"{}", Result.OK),
        (b'{"timeSeries": [{"points": [{"value": {"int64Value": "30"}}]}]}', Result.OK),
        (b'{"timeSeries": [{"points": [{"value": {"int64Value": "4000"}}]}]}', Result.BAD),
    ],
)
def test_messages_that_wait_for_long_are_found(deployment: Deployment, answer: bytes, result: Result) -> None:
    monitoring = CannedRest(answer)

    found = [check_backlog(dataclasses.replace(deployment, monitoring=monitoring), each) for each in PUSHED]

    assert [each.result for each in found] == [result] * 4
    asked = "GET v3/projects/p/timeSeries?filter=metric.type%3D%22pubsub.googleapis.com"
    assert monitoring.asked[-1].startswith(asked)


def test_the_permissions_are_those_that_the_chart_grants() -> None:
    granted = list_granted(ROOT / "infra/helm/templates/functions-permissions.yaml", "ClusterRole")

    assert granted == {*list_permissions(KINDS), *KUEUE_PERMISSIONS}


@pytest.mark.parametrize("missing", [None, *sorted(KUEUE_PERMISSIONS)], ids=str)
def test_the_permissions_of_kueues_check_are_asked_for_if_it_is_on(missing: tuple[str, str, str] | None) -> None:
    def allows(asked: dict[str, str]) -> bool:
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        return (asked["group"], resource, asked["verb"]) != missing

    deployment = a_deployment()
    deployment.apis[CLUSTER] = Reviewing(allows)
    on = with_settings(deployment, kueue_admission_check=True)
    (found,) = [each for each in check_cluster(on, CLUSTER) if each.check.endswith("c kueue")]

    assert [each for each in check_cluster(deployment, CLUSTER) if each.check.endswith("c kueue")] == []
    assert found.result is (Result.WARN if missing else Result.OK)
    assert missing is None or found.text.endswith(f": {missing[2]} {missing[1]}")
