"""What the build writes for others: Terraform's variables, Kueue's queue, overlay, an event."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from infra.build.outputs import find_kind, list_clusters, render
from infra.build.render_exporter import render as render_exporter
from infra.build.render_training import (
    CHIPS,
    PRIORITIES,
    find_slice,
    list_slices,
    read_environment,
    read_quotas,
    render_namespaces,
    render_queue,
)
from infra.build.render_variables import default_limit, list_missed, render_variables
from infra.build.smoke_event import build_event
from infra.build.smoke_event import render as render_event
from infra.build.third_party.versions import PRODUCTS, choose_version, list_versions
from shared.core import labels
from shared.core.messages import parse_message
from tests.infra.build_scripts import BESIDE_A_CLUSTER, BUILD, DEPLOYMENT, OLD_COMMAND_LINE, ROOT, by_name
from tests.infra.terraform_text import read_configuration
from tests.program_runs import run_python

CLUSTER = "projects/a-project/locations/us-east5/clusters/alpha"
FUNCTIONS = ("provision", "collect", "settle", "sweep")
ACCOUNTS = {each: f"n-{each}@a-project.iam.gserviceaccount.com" for each in FUNCTIONS}
OUTPUTS = {
    "clusters": {"main": {"path": CLUSTER, "endpoint": "https://x", "exporter_environment": {"A": "1", "B": "2"}}},
    "accounts": ACCOUNTS,
    "exporter_principals": {"a-project": "principal://x/subject/ns/tpu-provisioner/sa/tpu-provisioner-exporter"},
}
IMAGE = "us-east5-docker.pkg.dev/a-project/r/exporter"


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
    assert values["settings"] == {"mode": "active", "limit_chips": "64"}


def test_an_empty_input_leaves_terraforms_default() -> None:
    given = dict.fromkeys(OLD_COMMAND_LINE, "") | {"_CREATE_ENVIRONMENT": "true"}
    assert set(render_variables(inputs(given), {})) == {
        "project_id", "name", "functions_archive", "settings", "create_tensorboard"
    }  # fmt: skip


def test_more_namespaces_and_a_repository_reach_the_environment_only() -> None:
    more = {"_MORE_NAMESPACES": "research, serving", "_IMAGE_REPOSITORY": "training"}
    values = render_variables(inputs(OLD_COMMAND_LINE | more), {})
    variables = read_configuration(ROOT / "infra/terraform/complete").of("variable")

    assert (values["more_namespaces"], values["image_repository_name"]) == (["research", "serving"], "training")
    assert set(values) <= {each.name for each in variables}


def test_the_services_may_have_a_region_of_their_own() -> None:
    elsewhere = {"_SERVICES_REGION": "us-central1"}
    values = render_variables(inputs(OLD_COMMAND_LINE | elsewhere), {})
    assert (values["region"], values["services_region"]) == ("us-east5", "us-central1")

    values = render_variables(inputs(BESIDE_A_CLUSTER | elsewhere), {})
    assert (values["region"], values["clusters"]["main"]["location"]) == ("us-central1", "us-east5")


CHANNEL, RUNBOOK = "a notification channel, so", "the address of the runbook"
DEFAULT_LIMIT, NO_LIMIT = "a limit on chips, so this", "a limit on chips, so only"


@pytest.mark.parametrize(
    ("given", "more", "missed"),
    [
        ({}, {}, [DEFAULT_LIMIT, CHANNEL, RUNBOOK]),
        ({"_LIMIT_CHIPS": "64"}, {}, [CHANNEL, RUNBOOK]),
        ({"_LIMIT_CHIPS": "256"}, {}, [CHANNEL, RUNBOOK]),
        ({"_LIMIT_CHIPS": "0"}, {}, [NO_LIMIT, CHANNEL, RUNBOOK]),
        ({}, {"settings": {"limit_chips": "256"}}, [CHANNEL, RUNBOOK]),
        ({}, {"settings": {"limit_chips": 0}}, [NO_LIMIT, CHANNEL, RUNBOOK]),
        ({}, {"settings": {"limit_slices": "4"}}, [CHANNEL, RUNBOOK]),
        ({}, {"notification_channels": ["projects/p/notificationChannels/1"]}, [DEFAULT_LIMIT, RUNBOOK]),
        ({"_ALERT_EMAIL": "a@b.io", "_RUNBOOK_URL": "https://b.io/runbook.md"}, {}, [DEFAULT_LIMIT]),
    ],
)
def test_what_is_not_set_and_would_be_missed_is_told(
    given: dict[str, str], more: dict[str, Any], missed: list[str]
) -> None:
    asked = inputs(OLD_COMMAND_LINE | given)
    told = list_missed(render_variables(asked, more), default_limit(asked, more))

    assert len(told) == len(missed)
    assert all(line.startswith(f"Not set: {each}") for line, each in zip(told, missed, strict=True))


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


def test_a_quota_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    given = inputs(OLD_COMMAND_LINE | {"_QUOTAS": "v6e-16"}) | {"PATH": os.environ["PATH"]}
    done = run_python(BUILD / "render_variables.py", "--output", tmp_path / "values.json", env=given)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: QUOTAS: must be TPU types with numbers of chips (got 'v6e-16')")


def test_a_value_with_quotes_and_dollars_stays_what_it_is() -> None:
    odd = '${file("/etc/passwd")}"\n'
    values = render_variables(inputs(OLD_COMMAND_LINE | {"_NETWORK_NAME": odd}), {})
    assert json.loads(json.dumps(values))["network_name"] == odd


def test_more_variables_come_from_a_file_and_maps_are_joined_as_texts() -> None:
    settings = {"limit_slices": 3, "mode": "active", "resource_labels": {"a": "b"}, "node_tags": ["t"]}
    values = render_variables(inputs(OLD_COMMAND_LINE), {"cpu_pool_node_count": 1, "settings": settings})

    assert values["cpu_pool_node_count"] == 1
    texts = {"limit_slices": "3", "resource_labels": '{"a": "b"}', "node_tags": '["t"]'}
    assert values["settings"] == {"mode": "active", **texts}


@pytest.mark.parametrize("accounts", ["a@p.x, b@p.x", "a@p.x b@p.x", "a@p.x,b@p.x"])
def test_accounts_are_separated_by_spaces_or_commas(accounts: str) -> None:
    values = render_variables(inputs(BESIDE_A_CLUSTER | {"_NODE_SERVICE_ACCOUNTS": accounts}), {})
    assert values["node_service_accounts"] == ["a@p.x", "b@p.x"]


@pytest.mark.parametrize(
    ("outputs", "kind"),
    [
        ({}, ""),
        ({"role_ids": {}}, ""),
        (OUTPUTS, "provisioner"),
        ({"clusters": {"environment": {}, "more": {}}}, "complete"),
        ({"bucket_url": "gs://b"}, "complete"),
    ],
)
def test_the_outputs_tell_which_root_made_them_even_if_it_failed_half_way(
    outputs: dict[str, Any], kind: str
) -> None:
    assert find_kind(outputs) == kind


@pytest.mark.parametrize("name", ["clusters", "topic", "makers-subscriptions", "scheduler-job"])
def test_nothing_deployed_answers_nothing(name: str) -> None:
    assert render(name, {}) == []


def test_clusters_are_listed_by_their_parts() -> None:
    assert list_clusters(OUTPUTS) == [("main", "a-project", "us-east5", "alpha", "--dns-endpoint")]
    private = {"clusters": {"main": {"path": CLUSTER, "endpoint": "https://10.0.0.2", "ca_data": "LS0t"}}}
    assert list_clusters(private) == [("main", "a-project", "us-east5", "alpha", "--internal-ip")]
    with pytest.raises(ValueError, match=r"output clusters: x: is not the full name of a cluster \(got 'y'\)"):
        list_clusters({"clusters": {"x": {"path": "y"}}})


def test_the_outputs_that_the_scripts_read_are_those_that_both_roots_have() -> None:
    read = {"topics", "subscriptions", "scheduler_job", *OUTPUTS}
    for root, more in (("complete", {"workload", "cluster_id", "bucket_url"}), ("provisioner", set())):
        names = {each.name for each in read_configuration(ROOT / f"infra/terraform/{root}").of("output")}
        assert read | more <= names


def test_the_queue_has_the_flavor_and_quota_of_the_tpu_type() -> None:
    objects = render_queue({find_slice("v5litepod-16"): 32}, ["training"])
    by_kind = {each["kind"]: each for each in objects}
    flavors = {each["metadata"]["name"]: each for each in objects if each["kind"] == "ResourceFlavor"}

    assert flavors["v5litepod-16"]["spec"]["nodeLabels"] == {
        labels.ACCELERATOR: "tpu-v5-lite-podslice",
        labels.TOPOLOGY: "4x4",
    }
    assert set(flavors) > {"v5litepod-32", "v5litepod-64", "v5litepod-128", "v5litepod-256", "any-node"}
    assert by_kind["ClusterQueue"]["spec"]["namespaceSelector"] == {
        "matchLabels": {"kubernetes.io/metadata.name": "training"}
    }
    group = by_kind["ClusterQueue"]["spec"]["resourceGroups"][0]
    assert group["flavors"] == [{"name": "v5litepod-16", "resources": [{"name": CHIPS, "nominalQuota": "32"}]}]
    assert by_kind["LocalQueue"]["metadata"] == {"name": "tpu-job-queue", "namespace": "training"}


def test_every_tpu_type_makes_a_queue_of_its_own_flavor() -> None:
    for name, each in list_slices().items():
        objects = render_queue({each: each.chips}, ["n"])
        named = [found["metadata"]["name"] for found in objects]
        assert name in named
        assert len(set(named)) == len(named)
        assert len(objects) < 90


@pytest.mark.parametrize(
    ("chosen", "alias"), [("v5litepod-16", "v5litepod"), ("v5e-16", "v5e"), ("v6e-16", "v5litepod")]
)
def test_there_is_one_flavor_for_each_usual_shape_of_every_generation(chosen: str, alias: str) -> None:
    objects = render_queue({find_slice(chosen): 16}, ["n"])
    flavors = {
        each["metadata"]["name"]: tuple(each["spec"]["nodeLabels"].values())
        for each in objects
        if each["kind"] == "ResourceFlavor" and "spec" in each
    }

    usual = {each.labels for each in list_slices().values() if each.is_usual}
    assert sorted(flavors.values()) == sorted(usual)
    of_public = {"v4-8", "v4-16", "v4-32", "v4-64", "v4-128", "v4-256", "v4-512", "v4-1024", "v4-1536", "v4-2048"}
    assert set(flavors) >= of_public | {"v4-4096", "v3-32", "v5p-16", "v6e-256", "tpu7x-128"}
    assert {name.partition("-")[0] for name in flavors} == {"v3", "v4", alias, "v5p", "v6e", "tpu7x"}


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


@pytest.mark.parametrize(
    ("quotas", "complaint"),
    [
        ("v6e-17=4", r"QUOTAS: is not a TPU type \(got 'v6e-17'\); valid: v6e-"),
        ("v6e-16", r"QUOTAS: must be TPU types with numbers of chips \(got 'v6e-16'\); valid: v6e-16=64"),
        ("v6e-16=-1", r"QUOTAS: must be .*\(got 'v6e-16=-1'\)"),
        ("v6e-16=1=2", r"QUOTAS: must be .*\(got 'v6e-16=1=2'\)"),
        ("v6e-16=8 v6e-16=16", r"QUOTAS: names a slice twice \(got 'v6e-16=16'\)"),
        ("v5e-16=8", r"QUOTAS: names a slice twice \(got 'v5e-16=8'\); valid: other slices than of TPU_TYPE"),
    ],
)
def test_quotas_that_are_not_right_are_refused_by_name(quotas: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_quotas({"TPU_TYPE": "v5litepod-16", "QUOTAS": quotas})


def test_an_unknown_tpu_type_is_refused_with_its_generations_others() -> None:
    with pytest.raises(ValueError, match=r"TPU_TYPE: is not a TPU type \(got 'v6e-17'\); valid: v6e-"):
        find_slice("v6e-17")


def test_the_namespace_has_its_account_and_five_priorities() -> None:
    objects = render_namespaces(["training"], "cloud-tpu-sa", "x@a-project.iam.gserviceaccount.com", {})
    kinds = [each["kind"] for each in objects]
    assert kinds == ["Namespace", "ServiceAccount", "ConfigMap", *["PriorityClass"] * 5]
    assert objects[1]["metadata"]["annotations"] == {
        "iam.gke.io/gcp-service-account": "x@a-project.iam.gserviceaccount.com"
    }
    assert sorted(PRIORITIES.values()) == list(PRIORITIES.values())
    assert render_namespaces(["t"], "a", "", {})[1]["metadata"]["annotations"] == {}


def test_every_namespace_has_the_account_and_priorities_are_there_once() -> None:
    environment = read_environment(wrapped({"bucket_url": "gs://b", "tensorboard": "", "other": 1}))
    both = ["training", "research"]
    objects = render_namespaces(both, "cloud-tpu-sa", "", environment)

    accounts = [each["metadata"] for each in objects if each["kind"] == "ServiceAccount"]
    assert [(each["name"], each["namespace"]) for each in accounts] == [("cloud-tpu-sa", each) for each in both]
    assert [each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"] == both
    assert sum(each["kind"] == "PriorityClass" for each in objects) == len(PRIORITIES)
    settings = [each for each in objects if each["kind"] == "ConfigMap"]
    assert [each["metadata"]["namespace"] for each in settings] == both
    assert settings[0]["data"] == {"BUCKET_URL": "gs://b", "IMAGE_REPOSITORY": "", "TENSORBOARD": ""}


def test_the_exporters_overlay_names_image_by_digest_settings_and_one_account_for_each_function(
    tmp_path: Path,
) -> None:
    found = render_exporter(wrapped(OUTPUTS), "main", f"{IMAGE}@sha256:{'a' * 64}", tmp_path)

    assert found["images"] == [{"name": "exporter", "newName": IMAGE, "digest": f"sha256:{'a' * 64}"}]
    text = json.dumps(found)
    assert all(account in text for account in ACCOUNTS.values())


@pytest.mark.parametrize(
    ("key", "image", "complaint"),
    [
        ("other", f"{IMAGE}@sha256:1", r"--cluster: is not served \(got 'other'\); valid: main"),
        ("main", f"{IMAGE}:latest", "has no digest .*; valid: NAME@sha256:"),
    ],
)
def test_an_overlay_of_nothing_that_exists_is_refused(
    tmp_path: Path, key: str, image: str, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        render_exporter(wrapped(OUTPUTS), key, image, tmp_path)


def test_the_smoke_tests_event_is_one_that_the_function_reads_and_gcloud_can_pass_on() -> None:
    event = build_event(CLUSTER, "7b9cf4de-0000-4000-8000-000000000000")
    name, attributes, data = render_event(event)
    read = dict(each.split("=", 1) for each in attributes.split(","))

    assert parse_message(data.encode(), read) == event
    assert read["ce-id"] == name
    assert name != render_event(build_event(CLUSTER, "another"))[0]


def test_versions_are_those_whose_checksums_are_committed_and_the_first_is_the_default() -> None:
    for product in PRODUCTS:
        known = list_versions(product)
        assert known
        assert choose_version(product, "") == known[0]
        assert choose_version(product, "none") == "none"
        with pytest.raises(
            ValueError, match=rf"{product.upper()}_API_VERSION: has no known checksum \(got v9.9.9\)"
        ):
            choose_version(product, "v9.9.9")


def test_another_namespace_than_that_of_the_manifests_is_refused_by_name(tmp_path: Path) -> None:
    """Terraform gives that name to the functions; the manifests would grant rights on another."""
    other = OUTPUTS | {"exporter_principals": {"a-project": "principal://x/subject/ns/tpu-blue/sa/exporter"}}

    with pytest.raises(ValueError, match=r"exporter_namespace: .*\(got 'tpu-blue'\); valid: tpu-provisioner"):
        render_exporter(wrapped(other), "main", f"{IMAGE}@sha256:{'a' * 64}", tmp_path)
