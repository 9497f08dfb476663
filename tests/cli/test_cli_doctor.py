"""`doctor` finds what is broken, on a real broker and Kubernetes API, and names what mends it."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from cli.access.operator_access import Deployment
from cli.diagnosis.cluster_checks import LEDGER_RIGHTS, list_rights
from cli.diagnosis.doctor import examine
from cli.diagnosis.findings import Finding, Result
from cli.diagnosis.message_checks import check_backlog
from shared.edges.kubernetes_api import Connection, KubernetesApi
from shared.kinds.table import KIND_NAMES, KINDS
from shared.model import labels
from shared.model.errors import Denied
from shared.settings import ClusterSettings
from tests.builders import CLUSTER
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
from tests.component.fakes import FakeCluster
from tests.component.world import World
from tests.contract.stand_ins import ask, stand_in
from tests.log_records import Records

ROOT = Path(__file__).resolve().parents[2]
P = "projects/p"
TOPIC, DEAD_LETTERS, ENDS = f"{P}/topics/events", f"{P}/topics/letters", f"{P}/topics/ends"
NAMES = {
    "provision": f"{P}/subscriptions/provision",
    "collect": f"{P}/subscriptions/collect",
    "settle": f"{P}/subscriptions/settle",
    "dead_letters": f"{P}/subscriptions/letters",
}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    with stand_in(tmp_path_factory.mktemp("cluster"), "standins.cluster", "serve") as ports:
        yield KubernetesApi(Connection(url=ports["url"]))


@pytest.fixture
def deployment(broker: str, kubernetes: KubernetesApi) -> Iterator[Deployment]:
    """A deployment that lacks nothing but functions, logs and metrics."""
    ask("PUT", f"{broker}/v1/{DEAD_LETTERS}", {})
    ask("PUT", f"{broker}/v1/{NAMES['dead_letters']}", {"topic": DEAD_LETTERS})
    world = World(Records())
    found = a_deployment(world, pubsub=broker, topic=TOPIC, operations_topic=ENDS, subscriptions=dict(NAMES))
    yield dataclasses.replace(found, apis={CLUSTER: kubernetes})
    for name in (NAMES["dead_letters"], DEAD_LETTERS):
        urllib3.request("DELETE", f"{broker}/v1/{name}")


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
    message = f"this identity has all {len(list_rights(KINDS))} rights"
    assert re.search(rf"^ok +p/us-east5/c rights +{message}", result.stdout, re.MULTILINE)
    assert result.stdout.splitlines()[-1] == "10 ok, 11 skipped"


@pytest.mark.parametrize(
    ("value", "result", "mend"),
    [
        ("report-only", Result.WARN, f"kubectl label namespace tpu-provisioner {labels.MODE}-"),
        ("off", Result.BAD, f"kubectl label namespace tpu-provisioner {labels.MODE}-"),
        (None, Result.BAD, "kubectl apply -k infra/kubernetes/base, or set TPU_PROVISIONER_OWN_NAMESPACE"),
    ],
)
def test_an_emergency_stop_is_found(deployment: Deployment, value: str | None, result: Result, mend: str) -> None:
    cluster = deployment.ports.clusters[CLUSTER]
    assert isinstance(cluster, FakeCluster)
    del cluster.namespace_labels["tpu-provisioner"]
    if value:
        cluster.namespace_labels["tpu-provisioner"] = {labels.MODE: value}

    (found,) = found_by(deployment, "emergency stop")

    assert (found.result, found.mend) == (result, mend)
    assert "the mode is report-only" in found.text


def test_a_subscription_that_is_absent_is_found(broker: str, deployment: Deployment) -> None:
    ask("DELETE", f"{broker}/v1/{NAMES['dead_letters']}")

    (finding,) = found_by(deployment, "dead letters")

    assert finding.result is Result.BAD
    assert "Resource not found" in finding.text


def test_dead_letters_are_counted_by_reason_and_stay(broker: str, deployment: Deployment) -> None:
    body = {"data": "eA==", "attributes": {"CloudPubSubDeadLetterSourceSubscription": "x-collect"}}
    ask("POST", f"{broker}/v1/{DEAD_LETTERS}:publish", {"messages": [body, body]})

    for _ in range(2):
        (finding,) = found_by(deployment, "dead letters")
        assert (finding.result, finding.text) == (Result.WARN, "2: 2 attempts_exhausted")
        assert finding.mend == "tpu-provisioner dead-letters list"


def test_gke_that_refuses_is_found_and_hides_nothing_else(deployment: Deployment) -> None:
    pools: Any = deployment.ports.pools
    pools.down_clusters[CLUSTER] = Denied("container.clusters.get is missing")

    (finding,) = found_by(deployment, "c GKE")

    message = "no answer (permission_denied): container.clusters.get is missing"
    assert finding.text == message
    assert finding.mend.startswith("gcloud container clusters describe c --location=us-east5 --project=p")
    assert bad(deployment) == ["p/us-east5/c GKE"]


def test_kubernetes_out_of_reach_is_found(deployment: Deployment) -> None:
    away = dataclasses.replace(deployment, apis={CLUSTER: KubernetesApi(Connection(url=NOWHERE))})

    (found,) = [each for each in examine(away) if each.result is Result.BAD]
    first, *others = (f"p/us-east5/c {each}" for each in (*KIND_NAMES, "rights"))
    message = "no answer (unavailable): 127.0.0.1:9 does not answer (Connection refused)"
    assert (found.check, found.text) == (first, f"{message}; for the same cause not checked: {', '.join(others)}")


@pytest.mark.parametrize(("token_file", "result"), [("", Result.WARN), ("token", Result.BAD)])
def test_missing_rights_are_bad_for_the_functions_own_account(
    deployment: Deployment, tmp_path: Path, token_file: str, result: Result
) -> None:
    there = ClusterSettings(endpoint=NOWHERE, token_file=token_file)
    deployment.apis[CLUSTER] = Reviewing(lambda asked: asked["verb"] in ("get", "list"))

    (finding,) = found_by(with_settings(deployment, clusters={CLUSTER: there}), "c rights")

    assert (finding.result, finding.text) == (
        result,
        "this identity does not have the rights: patch nodes, create events, patch events",
    )


@pytest.mark.parametrize(
    ("limit", "denied", "result", "message"),
    [
        (0, {"create", "get", "update"}, Result.SKIPPED, "not needed"),
        (16, set(), Result.OK, "can keep ConfigMap tpu-provisioner/tpu-provisioner-reservations"),
        (16, {"create"}, Result.BAD, "does not have the rights: create configmaps"),
        (16, {"get", "update"}, Result.BAD, "get configmaps/tpu-provisioner-reservations, update configmaps/"),
    ],
)
def test_missing_rights_on_the_reservations_are_found_if_a_limit_is_set(
    deployment: Deployment, limit: int, denied: set[str], result: Result, message: str
) -> None:
    def allows(asked: dict[str, str]) -> bool:
        here = asked["resource"] == "configmaps" and asked["namespace"] == "tpu-provisioner"
        named = (asked["verb"] == "create") != (asked.get("name") == "tpu-provisioner-reservations")
        return here and named and asked["verb"] not in denied

    there = ClusterSettings(endpoint=NOWHERE, token_file="token")
    deployment.apis[CLUSTER] = Reviewing(allows)

    (found,) = found_by(with_settings(deployment, clusters={CLUSTER: there}, limit_chips=limit), "limit holds")

    assert found.result == result
    assert message in found.text
    assert ("functions-rights.yaml" in found.mend) == (result is Result.BAD)


def with_lease(deployment: Deployment, name: str) -> Deployment:
    return with_own(deployment, lease_name=name, lease_namespace="default")


def test_a_lease_says_whether_an_exporter_leads(deployment: Deployment, kubernetes: KubernetesApi) -> None:
    renewed = "2027-01-15T08:00:00.000000Z"  # the moment of the world's clock
    for name, holder in (("led", "exporter-a"), ("free", "")):
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
        kubernetes.create(LEASES, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    (led,) = found_by(with_lease(deployment, "led"), "c exporter")
    (free,) = found_by(with_lease(deployment, "free"), "c exporter")
    (absent,) = found_by(with_lease(deployment, "absent"), "c exporter")

    assert (led.result, led.text) == (Result.OK, "exporter-a is the leader and renewed its Lease 0 s ago")
    assert (free.result, free.text.partition(":")[0]) == (Result.BAD, "no exporter is the leader")
    assert (absent.result, absent.text) == (Result.BAD, "Lease default/absent does not exist: no exporter has run")

    clock: Any = deployment.ports.clock
    clock.advance(300)
    (old,) = found_by(with_lease(deployment, "led"), "c exporter")
    assert (old.result, "300 s ago" in old.text, "kubectl" in old.mend) == (Result.BAD, True, True)


def test_functions_and_exporter_that_do_not_answer_are_found(deployment: Deployment) -> None:
    away = with_own(deployment, function_uris={"sweep": NOWHERE}, exporter_url=NOWHERE)

    assert bad(away) == ["exporter", "function sweep"]


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

    found = list(check_backlog(dataclasses.replace(deployment, monitoring=monitoring)))

    assert [each.result for each in found] == [result] * 3
    asked = "GET v3/projects/p/timeSeries?filter=metric.type%3D%22pubsub.googleapis.com"
    assert monitoring.asked[-1].startswith(asked)


def test_the_rights_are_those_of_the_deployment() -> None:
    path = ROOT / "infra/kubernetes/base/functions-rights.yaml"
    roles = [each for each in yaml.safe_load_all(path.read_text()) if each]
    for_limits = [
        {
            (name, verb)
            for rule in role["rules"]
            for name in rule.get("resourceNames", [""])
            for verb in rule["verbs"]
        }
        for role in roles
        if role["kind"] == "Role"
        and role["metadata"]["name"] in ("tpu-provisioner-provision", "tpu-provisioner-sweep")
    ]

    assert set(list_rights(KINDS)) == list_granted(path, "ClusterRole")
    assert for_limits == [set(LEDGER_RIGHTS)] * 2
