"""The chart's objects fit together, and the exporter's pods have valid settings and safe bounds."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from exporter.exporter_settings import read_exporter_settings
from exporter.health import Health, HealthServer
from exporter.observed_objects import list_watched
from exporter.process import JOIN_SECONDS
from shared.edges.google import PUBLISH_SECONDS
from shared.kinds.table import KINDS
from standins.controlplane.chart import read_chart, read_local_chart
from tests.loop.chart import (
    CHART,
    CLUSTER,
    EXPORTER,
    ROOT,
    TOPIC,
    VALUES,
    read_container,
    read_environment,
    read_mebibytes,
    read_of_exporter,
    read_pod,
)

OPTIONS = {"kueue": True, "pinning": True}


def name_place(body: dict[str, Any]) -> tuple[str, str, str]:
    return body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]


def test_objects_are_unique_and_each_binding_names_a_role_and_an_account_that_are_there() -> None:
    objects = read_local_chart(CHART, OPTIONS)
    places = [name_place(each) for each in objects]

    assert len(set(places)) == len(places)
    assert places[0] == ("Namespace", "", "tpu-provisioner")
    for each in objects:
        if each["kind"].endswith("RoleBinding"):
            role = each["roleRef"]
            assert (role["kind"], each["metadata"].get("namespace", ""), role["name"]) in places
            for subject in each["subjects"]:
                account = ("ServiceAccount", subject.get("namespace"), subject["name"])
                assert subject["kind"] == "User" or account in places


def test_an_option_adds_objects_or_permissions_and_takes_none_away() -> None:
    usual = list_parts(read_chart(CHART, VALUES))
    for option in OPTIONS:
        parts = list_parts(read_chart(CHART, VALUES | {option: True}))
        assert [each for each in usual if each not in parts] == []
        assert len(parts) > len(usual)


def list_parts(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rules of roles, each with the name of its role, and all other objects."""
    roles = [each for each in objects if "rules" in each]
    return [
        *(each for each in objects if "rules" not in each),
        *({**rule, "role": each["metadata"]["name"]} for each in roles for rule in each["rules"]),
    ]


def test_no_rule_of_ours_uses_a_wildcard() -> None:
    for each in read_chart(CHART, VALUES | OPTIONS):
        assert "*" not in json.dumps(each.get("rules", []))


def test_the_settings_are_the_exporters_and_its_grace_is_longer_than_the_longest_clean_end() -> None:
    settings = read_exporter_settings(read_environment())
    lease = settings.lease_seconds / 6  # the time-out of its API
    longest = settings.drain_seconds + PUBLISH_SECONDS + lease + JOIN_SECONDS * (len(list_watched(KINDS)) + 1)

    assert (settings.cluster, settings.topic) == (CLUSTER, TOPIC)
    assert settings.lease_seconds > 0, "two replicas need the election"
    assert longest < read_pod()["spec"]["terminationGracePeriodSeconds"]


def test_the_memory_is_what_the_benchmarks_measured_with_room() -> None:
    text = (ROOT / "docs/benchmarks.md").read_text()
    measured = re.search(r"peak memory, selectors filter nothing[^|]*\| ([\d.]+) MiB", text)
    assert measured
    resources = read_container()["resources"]
    limit = read_mebibytes(resources["limits"]["memory"])

    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    assert 2 * float(measured[1]) < limit < 4 * float(measured[1])


def test_everything_that_selects_the_pods_does() -> None:
    labels = read_pod()["metadata"]["labels"]
    selecting = ("Deployment", "PodDisruptionBudget", "PodMonitoring")
    selectors = [read_of_exporter(kind)["spec"]["selector"] for kind in selecting]
    selectors += [each["labelSelector"] for each in read_pod()["spec"]["topologySpreadConstraints"]]
    selectors.append(read_of_exporter("NetworkPolicy")["spec"]["podSelector"])

    for each in selectors:
        assert each["matchLabels"].items() <= labels.items()
        assert each.keys() == {"matchLabels"}


@pytest.fixture
def answers() -> Iterator[Callable[[str], bool]]:
    """Whether the health server has a path."""
    server = HealthServer("127.0.0.1", 0, Health(()), lambda: b"")
    yield server._server.RequestHandlerClass.answers.__contains__  # type: ignore[attr-defined]
    server._server.server_close()


def test_probes_and_metrics_are_asked_where_the_exporter_answers(answers: Callable[[str], bool]) -> None:
    container = read_container()
    (port,) = container["ports"]
    asked = [container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]
    asked += read_of_exporter("PodMonitoring")["spec"]["endpoints"]

    assert [each["path"] for each in asked] == ["/healthz", "/readyz", "/metrics"]
    assert all(answers(each["path"]) for each in asked)
    assert {each["port"] for each in asked} == {port["name"]}
    assert port["containerPort"] == read_exporter_settings(read_environment()).http_port
    (ingress,) = read_of_exporter("NetworkPolicy")["spec"]["ingress"]
    assert [each["port"] for each in ingress["ports"]] == [port["name"]]


def test_a_rollout_is_given_up_before_the_build_stops_waiting_and_a_node_can_always_be_drained() -> None:
    waits = re.findall(r"--wait --timeout=(\d+)m", (ROOT / "infra/build/cluster.sh").read_text())
    deployment = read_of_exporter("Deployment")["spec"]
    spread = {each["whenUnsatisfiable"] for each in read_pod()["spec"]["topologySpreadConstraints"]}

    assert waits
    assert all(60 * int(each) > deployment["progressDeadlineSeconds"] for each in waits)
    assert (deployment["replicas"], spread) == (2, {"ScheduleAnyway"})
    assert read_of_exporter("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_the_pod_may_call_names_https_and_the_metadata_server_of_either_data_plane_only() -> None:
    allowed = [
        (to.get("ipBlock", {}).get("cidr", "anywhere"), port["protocol"], port["port"])
        for rule in read_of_exporter("NetworkPolicy")["spec"]["egress"]
        for to in rule.get("to", [{}])
        for port in rule["ports"]
    ]

    assert sorted(allowed) == [
        ("169.254.169.252/32", "TCP", 987),
        ("169.254.169.252/32", "TCP", 988),
        ("169.254.169.254/32", "TCP", 80),
        ("169.254.169.254/32", "TCP", 8080),
        ("anywhere", "TCP", 53),
        ("anywhere", "TCP", 443),
        ("anywhere", "UDP", 53),
    ]


def test_the_container_can_neither_write_nor_become_more_and_sees_no_services() -> None:
    pod, container, account = read_pod()["spec"], read_container(), read_of_exporter("ServiceAccount")

    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["enableServiceLinks"] is False
    assert "volumes" not in pod
    # Only who asks for the account's token gets it.
    assert (account["metadata"]["name"], account["automountServiceAccountToken"]) == (EXPORTER, False)
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (EXPORTER, True)
