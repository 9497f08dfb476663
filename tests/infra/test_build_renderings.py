"""What the build writes for others: Terraform's variables, Kueue's queue, overlay, an event."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.build.outputs import list_clusters
from infra.build.render_training import CONFIG_MAP, QUEUE, read_environment, read_quotas, render_queue
from infra.build.render_variables import list_given, render_variables
from infra.build.smoke_event import build_event
from infra.build.smoke_event import render as render_event
from shared.deliver import IDLE, deliver
from shared.engine.reconcile import Role
from shared.model.messages import parse_message
from tests.builders import CLUSTER as WORLDS_CLUSTER
from tests.builders import a_push
from tests.engine.world import World
from tests.infra.build_scripts import (
    BESIDE_A_CLUSTER,
    BUILD,
    DEPLOYMENT,
    OLD_COMMAND_LINE,
    PROVISION,
    ROOT,
    by_name,
    load,
)
from tests.infra.terraform_text import read_configuration

CLUSTER = "projects/a-project/locations/us-east5/clusters/alpha"
OUTPUTS = {"clusters": {"main": {"path": CLUSTER, "private": False}}}


def inputs(substitutions: dict[str, str]) -> dict[str, str]:
    return by_name(substitutions) | DEPLOYMENT


def wrapped(outputs: dict[str, Any]) -> dict[str, Any]:
    return {name: {"value": value} for name, value in outputs.items()}


@pytest.mark.parametrize(("root", "given"), [("complete", OLD_COMMAND_LINE), ("provisioner", BESIDE_A_CLUSTER)])
def test_the_variables_are_those_that_the_root_has_and_needs(root: str, given: dict[str, str]) -> None:
    values = render_variables(inputs(given | {"_LIMIT_CHIPS": "64"}), {})
    variables = read_configuration(ROOT / f"infra/terraform/{root}").of("variable")

    assert set(values) <= {each.name for each in variables}
    assert set(values) >= {each.name for each in variables if "default" not in each.body}
    assert values["settings"] == {"limit_chips": "64"}


@pytest.mark.parametrize(
    ("given", "more", "limit"),
    [
        (OLD_COMMAND_LINE, {}, "256"),
        (BESIDE_A_CLUSTER, {}, "256"),
        (
            OLD_COMMAND_LINE | {"_TPU_TYPE": "v5litepod-16", "_NUM_OF_CHIPS": "200", "_QUOTAS": "v6e-16=64"},
            {},
            "264",
        ),
        (BESIDE_A_CLUSTER | {"_NUM_OF_CHIPS": "999"}, {}, "256"),
        (OLD_COMMAND_LINE | {"_LIMIT_CHIPS": "8"}, {}, "8"),
        (OLD_COMMAND_LINE | {"_LIMIT_CHIPS": "0"}, {}, "0"),
        (OLD_COMMAND_LINE, {"settings": {"limit_chips": "7"}}, "7"),
        (OLD_COMMAND_LINE, {"settings": {"limit_chips_per_namespace": 7}}, None),
    ],
)
def test_the_limit_is_a_usual_one_unless_a_person_sets_one(
    given: dict[str, str], more: dict[str, Any], limit: str | None
) -> None:
    assert render_variables(inputs(given), more)["settings"].get("limit_chips") == limit


def test_clusters_are_listed_by_their_parts() -> None:
    assert list_clusters(OUTPUTS) == [("main", "a-project", "us-east5", "alpha", "--dns-endpoint")]
    private = {"clusters": {"main": {"path": CLUSTER, "private": True}}}
    assert list_clusters(private) == [("main", "a-project", "us-east5", "alpha", "--internal-ip")]
    with pytest.raises(ValueError, match=r"output clusters: x: is not the full name of a cluster \(got 'y'\)"):
        list_clusters({"clusters": {"x": {"path": "y"}}})


def test_the_queue_has_quotas_of_several_slices_and_serves_several_namespaces() -> None:
    given = {"TPU_TYPE": "v5litepod-16", "NUM_TPU_POOLS": "2", "QUOTAS": "v6e-16=64, v4-4x4x16=512 v5p-32=0"}
    objects = render_queue(read_quotas(given), ["training", "research"])
    (queue,) = [each["spec"] for each in objects if each["kind"] == "ClusterQueue"]

    flavors = queue["resourceGroups"][0]["flavors"]
    quotas = {each["name"]: each["resources"][0]["nominalQuota"] for each in flavors}
    assert quotas == {"v5litepod-16": "32", "v6e-16": "64", "v4-4x4x16": "512", "v5p-32": "0"}
    assert [each["name"] for each in flavors] == list(quotas)
    assert {each["metadata"]["name"] for each in objects if each["kind"] == "ResourceFlavor"} > quotas.keys()
    (matched,) = queue["namespaceSelector"]["matchExpressions"]
    assert matched == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["training", "research"]}
    queues = [each["metadata"] for each in objects if each["kind"] == "LocalQueue"]
    assert queues == [{"name": "tpu-job-queue", "namespace": each} for each in ("training", "research")]


def test_the_smoke_tests_event_is_one_that_the_function_reads_and_gcloud_can_pass_on() -> None:
    event = build_event(CLUSTER, "7b9cf4de-0000-4000-8000-000000000000")
    name, attributes, data = render_event(event)
    read = dict(each.split("=", 1) for each in attributes.split(","))

    assert parse_message(data.encode(), read) == event
    assert read["ce-id"] == name
    assert name != render_event(build_event(CLUSTER, "another"))[0]


def test_the_function_writes_the_record_that_the_smoke_test_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    world, event = World(), build_event(WORLDS_CLUSTER, "7b9cf4de-0000-4000-8000-000000000000")
    with caplog.at_level(logging.INFO, "functions"):
        deliver(Role.PROVISION, a_push(event), world.ports)

    (record,) = caplog.records
    assert (record.message, vars(record)["event_id"]) == (IDLE, event.id)
    assert f'jsonPayload.message=\\"{IDLE}\\"' in (BUILD / "provision-10-smoke.sh").read_text()


PRIVATE = {
    "_CONTROL_PLANE_ACCESS": "private",
    "_PRIVATE_NODES": "true",
    "_FUNCTIONS_EGRESS": "all",
    "_FUNCTIONS_SUBNET": "projects/host/regions/us-east5/subnetworks/functions",
    "_BUILD_WORKER_POOL": "projects/a-project/locations/us-east5/workerPools/private",
    "_KMS_KEY": "projects/keys/locations/us-east5/keyRings/r/cryptoKeys/k",
    "_SERVICES_KMS_KEY": "projects/keys/locations/us-east5/keyRings/r/cryptoKeys/s",
    "_NETWORK_PROJECT": "host-project",
}
OF_ENVIRONMENT = {
    "control_plane_access": "private",
    "enable_private_nodes": True,
    "authorized_networks": ["10.0.0.0/8", "192.168.0.0/16"],
    "kms_key": PRIVATE["_KMS_KEY"],
    "network_project": "host-project",
    "create_network": False,
    "create_nat": False,
    "more_namespaces": ["research", "serving"],
    "image_repository_name": "training",
}
MORE = {
    "_AUTHORIZED_NETWORKS": "10.0.0.0/8 192.168.0.0/16",
    "_MORE_NAMESPACES": "research, serving",
    "_IMAGE_REPOSITORY": "training",
}


@pytest.mark.parametrize(
    ("root", "given", "own"),
    [("complete", OLD_COMMAND_LINE | MORE, OF_ENVIRONMENT), ("provisioner", BESIDE_A_CLUSTER, {})],
)
def test_what_is_private_becomes_variables_that_the_root_has(
    root: str, given: dict[str, str], own: dict[str, Any]
) -> None:
    before = render_variables(inputs(given), {})
    values = render_variables(inputs(given | PRIVATE), {})
    added = {name: value for name, value in values.items() if name not in before or name in own}

    assert added == own | {
        "require_private_nodes": True,
        "functions_egress": "all",
        "functions_subnet": PRIVATE["_FUNCTIONS_SUBNET"],
        "build_worker_pool": PRIVATE["_BUILD_WORKER_POOL"],
        "services_kms_key": PRIVATE["_SERVICES_KMS_KEY"],
    }
    declared = read_configuration(ROOT / f"infra/terraform/{root}").of("variable")
    assert added.keys() <= {each.name for each in declared}
    if root == "provisioner":
        assert values["clusters"]["main"]["endpoint"] == "private"
        assert "endpoint" not in before["clusters"]["main"]


@pytest.mark.parametrize(
    ("given", "more", "message"),
    [
        ({"_LIMIT_CHIPS": "8"}, {"settings": {"limit_chips": 7}}, r"\(got 7\); valid: set LIMIT_CHIPS"),
        ({}, {"create_tensorboard": True}, "the input CREATE_TENSORBOARD, which is or means false"),
        ({}, {"zone": "x", "region": "y"}, r"region: .* the input REGION, .*\n.*zone: .* the input ZONE"),
        ({"_NETWORK_PROJECT": "host"}, {"create_nat": True}, "create_nat: contradicts the input NETWORK_PROJECT"),
        (BESIDE_A_CLUSTER, {"clusters": {"main": {}}}, "clusters.main: contradicts the input CLUSTER_NAME"),
    ],
)
def test_a_file_may_repeat_an_input_or_its_default_and_contradict_neither(
    given: dict[str, str], more: dict[str, Any], message: str
) -> None:
    asked = inputs(OLD_COMMAND_LINE | {"_LIMIT_CHIPS": "8"})
    same = {"zone": "us-east5-b", "num_tpu_pools": "1", "settings": {"limit_chips": 8}}
    assert render_variables(asked, same) == render_variables(asked, {})
    with pytest.raises(ValueError, match=message):
        render_variables(inputs(OLD_COMMAND_LINE | given), more)


@pytest.mark.parametrize("path", sorted((ROOT / "examples/training").glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_of_the_environment_names_what_the_build_makes_by_default(path: Path) -> None:
    jobset = yaml.safe_load(path.read_text())
    (account,) = [
        each.body["default"]
        for each in read_configuration(ROOT / "infra/terraform/complete").of("variable")
        if each.name == "tpu_sa_name"
    ]

    assert jobset["metadata"]["namespace"] == load(PROVISION)["substitutions"]["_NAMESPACE"]
    assert jobset["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == QUEUE
    for job in jobset["spec"]["replicatedJobs"]:
        pod = job["template"]["spec"]["template"]["spec"]
        assert pod["serviceAccountName"] == account
        for container in pod["containers"]:
            sources = container.get("envFrom", [])
            assert all(each == {"configMapRef": {"name": CONFIG_MAP}} for each in sources)
            known = {each["name"] for each in container.get("env", [])} | set(
                read_environment({}) if sources else ()
            )
            assert set(re.findall(r"\$\{?([A-Z][A-Z_]+)", container["args"][0])) <= known


def test_the_services_and_the_cluster_may_have_places_of_their_own() -> None:
    elsewhere = {"_SERVICES_REGION": "us-central1"}
    values = render_variables(inputs(OLD_COMMAND_LINE | elsewhere), {})
    assert (values["region"], values["services_region"]) == ("us-east5", "us-central1")

    values = render_variables(inputs(BESIDE_A_CLUSTER | elsewhere | {"_CLUSTER_LOCATION": "us-east5-b"}), {})
    assert (values["region"], values["clusters"]["main"]["location"]) == ("us-central1", "us-east5-b")


def test_the_clusters_that_are_checked_are_those_that_terraform_serves() -> None:
    main = {"name": "a", "location": "us-east5", "project": "p", "zone": ""}
    more = {"name": "b", "location": "us-east5-b", "endpoint": "private"}

    assert list_given({"project_id": "home", "clusters": {"main": main, "b": more}}) == [
        "b\thome\tus-east5-b\tb\t--internal-ip",
        "main\tp\tus-east5\ta\t--dns-endpoint",
    ]
    assert list_given({"project_id": "home"}) == []
