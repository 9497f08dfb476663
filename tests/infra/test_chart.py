"""The chart renders what its values say, as Helm reads it, and refuses wrong values.

Its objects fit together, and the exporter's pods have valid settings and safe bounds.
"""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from exporter.exporter_settings import read_exporter_settings
from exporter.health import Health, HealthServer, Metrics
from exporter.observed_objects import list_observed
from exporter.process import JOIN_SECONDS
from shared import VERSION
from shared.kinds.table import KINDS
from standins.controlplane.chart import read_chart
from tests.infra.chart import (
    CHART,
    CLUSTER,
    CONTAINER,
    ENVIRONMENT,
    EXPORTER,
    OF_EXPORTER,
    POD,
    ROOT,
    TOPIC,
    VALUES,
    Json,
)
from tests.program_runs import run_program

ALL: Json = VALUES | {
    "environment": {"TPU_PROVISIONER_KINDS": "jobset,job", "TPU_PROVISIONER_KUEUE_ADMISSION_CHECK": "true"},
    "kueue": True,
    "pinning": True,
    "training": {
        "namespaces": ["tpu-training", "research"],
        "googleAccount": "sa@p.iam.gserviceaccount.com",
        "settings": {"BUCKET_URL": "gs://b", "TENSORBOARD": ""},
        "priorities": {"very-low": 100, "very-high": 1000},
    },
    "queue": {
        "flavors": [{"name": "v6e-16", "accelerator": "tpu-v6e-slice", "topology": "4x4"}],
        "quotas": [{"flavor": "v6e-16", "chips": 64}],
    },
}
"""Every value that adds something."""


def name_of(each: Json) -> tuple[str, str, str]:
    return each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]


def read_kind(kind: str, values: Json = ALL) -> list[Json]:
    return [each for each in read_chart(CHART, values) if each["kind"] == kind]


def test_only_what_the_values_name_is_in_it() -> None:
    assert CONTAINER["image"] == VALUES["image"]
    assert len(read_kind("Namespace", VALUES)) == 1
    assert not read_kind("ClusterQueue", VALUES)
    assert not read_kind("PodMonitoring", VALUES | {"monitoring": False})


def test_the_queue_serves_the_namespaces_and_has_the_quotas() -> None:
    (queue,) = read_kind("ClusterQueue")
    flavors = queue["spec"]["resourceGroups"][0]["flavors"]

    assert flavors == [{"name": "v6e-16", "resources": [{"name": "google.com/tpu", "nominalQuota": "64"}]}]
    (matched,) = queue["spec"]["namespaceSelector"]["matchExpressions"]
    assert matched["values"] == ["tpu-training", "research"]
    assert [each["metadata"]["namespace"] for each in read_kind("LocalQueue")] == matched["values"]
    # Jobs of people run there, so neither an uninstall nor a shorter list deletes a namespace.
    for each in read_kind("Namespace")[1:]:
        assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_no_upgrade_sets_or_takes_back_a_stop() -> None:
    labels = [each["metadata"].get("labels", {}) for each in read_chart(CHART, ALL)]

    assert "mode" not in json.dumps(labels)


@pytest.mark.helm
@pytest.mark.parametrize("values", [VALUES, ALL, VALUES | {"monitoring": False}], ids=["few", "all", "bare"])
def test_helm_renders_the_same_objects(tmp_path: Path, values: Json) -> None:
    (tmp_path / "values.json").write_text(json.dumps(values))
    words = ("template", "x", str(CHART), "--kube-version=1.34", f"--values={tmp_path / 'values.json'}")
    rendered = run_program("helm", *words, succeeds=True).stdout

    theirs = [each for each in yaml.safe_load_all(rendered) if each]
    assert sorted(theirs, key=name_of) == sorted(read_chart(CHART, values), key=name_of)


def test_the_chart_has_the_version_of_its_source_and_a_default_for_each_value() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())

    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    assert set(defaults) | {"global"} == set(schema["properties"])
    assert set(schema["required"]) == set(VALUES)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({}, None),
        ({"image": "exporter:latest"}, ["image"]),
        ({"cluster": "alpha"}, ["cluster"]),
        ({"topic": ""}, ["topic"]),
        ({"accounts": VALUES["accounts"] | {"collect": "somebody@example.com"}}, ["accounts", "collect"]),
        ({"accounts": {}}, ["accounts"]),
        ({"environment": {"TPU_PROVISIONER_TOPIC": "x"}}, ["environment"]),
        ({"environment": {"PATH": "x"}}, ["environment"]),
        ({"environment": {"TPU_PROVISIONER_DEBUG": True}}, ["environment", "TPU_PROVISIONER_DEBUG"]),
        ({"replicas": 3}, []),
        ({"queue": {"quotas": [{"flavor": "v6e-16", "chips": -1}]}}, ["queue", "quotas", 0, "chips"]),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(changes: Json, place: list[str] | None) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    errors = list(jsonschema.Draft7Validator(schema).iter_errors(ALL | changes))

    assert {tuple(each.absolute_path) for each in errors} == ({tuple(place)} if place is not None else set())


# --- its objects, and the exporter's pods


def test_objects_are_unique_no_rule_has_a_wildcard_and_bindings_name_what_is_there() -> None:
    objects = read_chart(CHART, ALL)
    places = [name_of(each) for each in objects]

    assert len(set(places)) == len(places)
    assert places[0] == ("Namespace", "", "tpu-provisioner")
    for each in objects:
        assert "*" not in json.dumps(each.get("rules", []))
        if each["kind"].endswith("RoleBinding"):
            role = each["roleRef"]
            assert (role["kind"], each["metadata"].get("namespace", ""), role["name"]) in places
            for subject in each["subjects"]:
                account = ("ServiceAccount", subject.get("namespace"), subject["name"])
                assert subject["kind"] == "User" or account in places


def test_the_settings_are_the_exporters_and_its_grace_is_longer_than_the_longest_clean_end() -> None:
    settings = read_exporter_settings(ENVIRONMENT)
    lease = settings.lease_seconds / 6  # the time-out of its API
    longest = lease + JOIN_SECONDS * (len(list_observed(CLUSTER, KINDS)) + 1)

    assert (settings.cluster, settings.topic) == (CLUSTER, TOPIC)
    assert settings.lease_seconds > 0, "two replicas need the election"
    assert longest < POD["spec"]["terminationGracePeriodSeconds"]


def test_the_memory_is_what_the_benchmarks_measured_with_room() -> None:
    text = (ROOT / "docs/benchmarks.md").read_text()
    measured = re.search(r"peak memory, selectors filter nothing[^|]*\| ([\d.]+) MiB", text)
    assert measured
    resources = CONTAINER["resources"]
    limit = int(resources["limits"]["memory"].removesuffix("Mi"))

    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    assert 2 * float(measured[1]) < limit < 4 * float(measured[1])


def test_everything_that_selects_the_pods_does() -> None:
    labels = POD["metadata"]["labels"]
    selecting = ("Deployment", "PodDisruptionBudget", "PodMonitoring")
    selectors = [OF_EXPORTER[kind]["spec"]["selector"] for kind in selecting]
    selectors += [each["labelSelector"] for each in POD["spec"]["topologySpreadConstraints"]]
    selectors.append(OF_EXPORTER["NetworkPolicy"]["spec"]["podSelector"])

    for each in selectors:
        assert each["matchLabels"].items() <= labels.items()
        assert each.keys() == {"matchLabels"}


def test_probes_and_metrics_are_asked_where_the_exporter_answers() -> None:
    server = HealthServer("127.0.0.1", 0, Health(()), Metrics())
    server._server.server_close()
    container = CONTAINER
    (port,) = container["ports"]
    asked = [container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]
    asked += OF_EXPORTER["PodMonitoring"]["spec"]["endpoints"]

    assert [*server._judgements, "/metrics"] == [each["path"] for each in asked]
    assert {each["port"] for each in asked} == {port["name"]}
    assert port["containerPort"] == read_exporter_settings(ENVIRONMENT).http_port
    (ingress,) = OF_EXPORTER["NetworkPolicy"]["spec"]["ingress"]
    assert [each["port"] for each in ingress["ports"]] == [port["name"]]


def test_a_rollout_is_given_up_before_the_build_stops_waiting_and_a_node_can_always_be_drained() -> None:
    waits = re.findall(r"--wait --timeout=(\d+)m", (ROOT / "infra/build/cluster.sh").read_text())
    deployment = OF_EXPORTER["Deployment"]["spec"]
    spread = {each["whenUnsatisfiable"] for each in POD["spec"]["topologySpreadConstraints"]}

    assert waits
    assert all(60 * int(each) > deployment["progressDeadlineSeconds"] for each in waits)
    assert (deployment["replicas"], spread) == (2, {"ScheduleAnyway"})
    assert OF_EXPORTER["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


def test_the_pod_may_call_names_https_and_the_metadata_server_of_either_data_plane_only() -> None:
    names_and_https = {f"anywhere {port}" for port in ("TCP 53", "UDP 53", "TCP 443")}
    ports = {"252/32": (987, 988), "254/32": (80, 8080)}
    metadata = {f"169.254.169.{host} TCP {port}" for host, own in ports.items() for port in own}

    assert names_and_https | metadata == {
        f"{to.get('ipBlock', {}).get('cidr', 'anywhere')} {port['protocol']} {port['port']}"
        for rule in OF_EXPORTER["NetworkPolicy"]["spec"]["egress"]
        for to in rule.get("to", [{}])
        for port in rule["ports"]
    }


def test_the_container_can_neither_write_nor_sees_services_and_only_who_asks_gets_the_token() -> None:
    """The namespace's Pod Security holds the rest: tests/loop/test_chart_applied.py."""
    pod, account = POD["spec"], OF_EXPORTER["ServiceAccount"]

    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["enableServiceLinks"] is False
    assert "volumes" not in pod
    assert (account["metadata"]["name"], account["automountServiceAccountToken"]) == (EXPORTER, False)
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (EXPORTER, True)
