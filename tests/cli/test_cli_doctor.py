"""`doctor` finds what is broken, on a real broker and Kubernetes API, and names what mends it."""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from cli.access.connections import Deployment
from cli.access.deployment import DEAD_LETTERS, PUSHED
from cli.diagnosis import doctor
from cli.diagnosis.doctor import Finding, Result, check_tick, examine
from shared.edges.connection import Connection
from shared.edges.kubernetes import KubernetesApi
from shared.kinds.table import KIND_NAMES
from shared.model import labels
from shared.model.errors import Denied
from standins.kit.processes import running_stand_in
from tests.builders import CLUSTER, NOW
from tests.cli.cli_world import NOWHERE, a_deployment, put_in_place, run, with_own, with_settings
from tests.contract.stand_ins import ask, serve_google
from tests.engine.world import FakeCluster

CHART = "helm upgrade tpu-provisioner-exporter infra/helm --namespace default --reuse-values"
P = "projects/p"
LETTERS = f"{P}/topics/letters"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    with running_stand_in(tmp_path_factory.mktemp("cluster"), "standins.cluster") as started:
        yield KubernetesApi(Connection(url=started.addresses["url"]))


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """A Pub/Sub with the subscriptions of the deployment x; those of y lack two."""
    with serve_google(pubsub=True) as ports:
        ask("PUT", f"{ports['rest']}/v1/{LETTERS}", {})
        names = [f"x-{part}" for part in (*PUSHED, DEAD_LETTERS)] + [f"y-{part}" for part in PUSHED[:-1]]
        for name in names:
            ask("PUT", f"{ports['rest']}/v1/{P}/subscriptions/{name}", {"topic": LETTERS})
        yield ports["rest"]


@pytest.fixture
def deployment(broker: str, kubernetes: KubernetesApi) -> Deployment:
    """A deployment that lacks nothing but logs."""
    whole = a_deployment(pubsub=broker, project="p", name="x")
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
    assert re.search("^ok +subscriptions +all 5 exist", result.stdout, re.MULTILINE)
    assert result.stdout.splitlines()[-1] == "10 ok, 6 skipped"


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
    lacking = with_own(deployment, name="y")

    (finding,) = found_by(lacking, "subscriptions")
    (counted,) = found_by(lacking, "dead letters")

    absent = f"{P}/subscriptions/y-collect-ends, {P}/subscriptions/y-dead-letters"
    assert (finding.result, finding.text) == (Result.BAD, f"these do not exist: {absent}")
    assert "Resource not found" in counted.text


def test_dead_letters_are_counted_by_reason_and_stay(broker: str, deployment: Deployment) -> None:
    body = {"data": "eA==", "attributes": {"CloudPubSubDeadLetterSourceSubscription": "x-collect"}}
    ask("PUT", f"{broker}/v1/{LETTERS}-2", {})
    ask("PUT", f"{broker}/v1/{P}/subscriptions/z-dead-letters", {"topic": f"{LETTERS}-2"})
    ask("POST", f"{broker}/v1/{LETTERS}-2:publish", {"messages": [body, body]})

    for _ in range(2):
        (finding,) = found_by(with_own(deployment, name="z"), "dead letters")
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
    first, *others = (f"p/us-east5/c {each}" for each in KIND_NAMES)
    message = "no answer (unavailable): 127.0.0.1:9 does not answer (Connection refused)"
    assert (found.check, found.text) == (first, f"{message}; for the same cause not checked: {', '.join(others)}")


def test_the_limits_are_told(deployment: Deployment) -> None:
    limited = with_settings(deployment, limit_chips=64, limit_chips_per_namespace=16)

    assert found_by(deployment, "settings")[0].text == "1 cluster; no limit"
    told = "1 cluster; at most 64 chips in a cluster, at most 16 chips in a namespace"
    assert found_by(limited, "settings")[0].text == told


@pytest.mark.parametrize(
    ("last", "result", "text"),
    [
        (None, Result.BAD, "no log record for a day, but it must run every minute"),
        ((NOW - 200, {}), Result.BAD, "it ended 200 s ago, but it must run every minute"),
        ((NOW - 20, {"create": 1}), Result.OK, "ended 20 s ago"),
        (
            (NOW - 20, {"errors": 2, "left": 3}),
            Result.BAD,
            "ended 20 s ago; it failed for 2 objects, and left 3 to the next one; the last error: no nodes",
        ),
    ],
)
def test_the_ticks_of_each_cluster_and_function_are_found(
    deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    last: tuple[float, dict[str, int]] | None,
    result: Result,
    text: str,
) -> None:
    monkeypatch.setattr(doctor, "find_last_tick", lambda *_names, **_rest: last)
    monkeypatch.setattr(doctor, "find_last_error", lambda *_names, **_rest: "no nodes")

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
