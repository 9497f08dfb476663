"""The module and the code agree: filters, settings, log fields, reasons, metrics, headings."""

import ast
import dataclasses
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from demo.stack.local_subscriptions import ACK_DEADLINE_SECONDS, DELIVERY_ATTEMPTS_MAX, FILTERS
from exporter.exporter_settings import read_exporter_settings
from shared.core.decisions import Reason, Verdict
from shared.core.errors import InvalidRequest
from shared.core.settings import Settings
from shared.deliver import CHARTED
from shared.edges.threads import CONNECTIONS_MAX
from shared.engine.looks.side_by_side import CALLS_AT_ONCE, CLUSTERS_AT_ONCE
from shared.engine.looks.sweep_report import ClusterFigures
from shared.environment import PREFIX, read_settings
from tests.builders import CLUSTER, NOW, a_pod, an_over_event
from tests.component.world import Records, World
from tests.infra.terraform_cli import ROOT, TERRAFORM
from tests.infra.terraform_text import Block, Configuration, list_texts, read_configuration
from tests.tidy.test_house_rules import list_anchors

MODULE = TERRAFORM / "modules/provisioner"
SET_BY_THE_MODULE = {
    "clusters",
    "node_service_account",
    "allowed_node_service_accounts",
    "dead_letter_topic",
    "own_namespace",
    "timeout_seconds",
}
SAME_FOR_ALL = {"credentials", "gke_endpoint", "compute_endpoint", "pubsub_endpoint"}
"""Meant for stand-ins; in the cloud the defaults are right."""


@pytest.fixture(scope="module")
def module() -> Configuration:
    return read_configuration(MODULE)


def one(module: Configuration, address: str) -> Block:
    return next(each for each in module.blocks if each.address == address)


def default_of(module: Configuration, variable: str) -> Any:
    return one(module, f"variable.{variable}").body["default"]


def test_the_subscriptions_filter_as_on_the_laptop(module: Configuration) -> None:
    pushed = {name: (text or "").replace('\\"', '"') for name, text in module.locals["filters"].items()}

    assert pushed == FILTERS


def test_the_subscriptions_wait_and_try_as_on_the_laptop(module: Configuration) -> None:
    push = one(module, "google_pubsub_subscription.push").body
    functions = module.locals["every_function"]

    assert push["ack_deadline_seconds"] == "${local.functions[each.key].timeout_seconds}"
    assert {functions[name]["timeout_seconds"] for name in FILTERS} == {ACK_DEADLINE_SECONDS}
    assert push["dead_letter_policy"][0]["max_delivery_attempts"] == DELIVERY_ATTEMPTS_MAX


def test_the_settings_of_the_module_are_those_of_the_functions(module: Configuration) -> None:
    free = set(module.locals["settings_free"])

    assert free | SET_BY_THE_MODULE | SAME_FOR_ALL == {field.name for field in dataclasses.fields(Settings)}
    assert not free & (SET_BY_THE_MODULE | SAME_FOR_ALL)
    written = "\n".join(path.read_text() for path in MODULE.glob("*.tf"))
    assert {name.lower() for name in re.findall(rf"{PREFIX}([A-Z_]+) +=", written)} - {"cluster", "topic"} == (
        SET_BY_THE_MODULE
    )


def test_what_the_module_sets_is_a_valid_environment() -> None:
    environ = {
        f"{PREFIX}CLUSTERS": json.dumps({CLUSTER: {"endpoint": "https://x.us-east5.gke.goog", "zone": ""}}),
        f"{PREFIX}NODE_SERVICE_ACCOUNT": "nodes@p.iam.gserviceaccount.com",
        f"{PREFIX}ALLOWED_NODE_SERVICE_ACCOUNTS": "nodes@p.iam.gserviceaccount.com,more@p.iam.gserviceaccount.com",
        f"{PREFIX}DEAD_LETTER_TOPIC": "projects/p/topics/tpu-provisioner-dead-letters",
        f"{PREFIX}TIMEOUT_SECONDS": "60",
        "THREADS": "16",
    }

    found = read_settings(environ)

    assert found.allowed_node_service_accounts == (
        "nodes@p.iam.gserviceaccount.com",
        "more@p.iam.gserviceaccount.com",
    )


def test_the_exporters_environment_in_the_outputs_is_valid(module: Configuration) -> None:
    clusters = str(one(module, "output.clusters").body["value"])
    names = set(re.findall(rf"{PREFIX}[A-Z_]+", clusters))

    check = f"{PREFIX}KUEUE_ADMISSION_CHECK"
    assert names == {f"{PREFIX}CLUSTER", f"{PREFIX}TOPIC", check}
    topic = "projects/p/topics/tpu-provisioner-workload-events"
    environ = {f"{PREFIX}CLUSTER": CLUSTER, f"{PREFIX}TOPIC": topic}
    assert read_exporter_settings(environ).topic == topic
    assert read_exporter_settings(environ | {check: "true"}).kueue_admission_check


def test_an_instance_keeps_a_connection_for_every_call_at_one_time(module: Configuration) -> None:
    functions = module.locals["every_function"]

    assert max(functions[name]["concurrency"] for name in FILTERS) * CALLS_AT_ONCE <= CONNECTIONS_MAX
    assert CLUSTERS_AT_ONCE * CALLS_AT_ONCE <= CONNECTIONS_MAX
    assert functions["sweep"]["concurrency"] == 1


def test_every_function_is_an_entry_point_of_the_bundle(module: Configuration) -> None:
    tree = ast.parse((ROOT / "functions/main.py").read_text())
    entries = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list}

    assert set(module.locals["every_function"]) == entries


def test_the_exporters_identity_is_that_of_its_manifests(module: Configuration) -> None:
    text = (ROOT / "infra/kubernetes/base/exporter-account.yaml").read_text()
    account = yaml.safe_load(text)["metadata"]

    assert account["namespace"] == default_of(module, "exporter_namespace")
    assert account["name"] == default_of(module, "exporter_account")


@pytest.fixture
def logged() -> Iterator[list[dict[str, Any]]]:
    """What the functions log in a plain life: a pool is made, kept, and given back by the sweep."""
    records = Records()
    root = logging.getLogger()
    root.addHandler(records)
    before = root.level
    root.setLevel(logging.INFO)  # not the attribute: the loggers remember whether a level is enabled
    try:
        world = World(records)
        world.cluster.add(a_pod(unschedulable_since=NOW - 600))
        world.sweep()
        world.sweep()
        world.collect(an_over_event(uid="another"))
        world.sweep()
        yield records.found
    finally:
        root.removeHandler(records)
        root.setLevel(before)


def test_every_log_field_that_is_counted_is_written(module: Configuration, logged: list[dict[str, Any]]) -> None:
    metrics = module.of("resource", "google_logging_metric")
    named = {
        field
        for each in metrics
        for text in list_texts(each.body)
        for field in re.findall(r"jsonPayload\.(\w+)", text)
    }
    written = {field for record in logged for field in record}

    figures = set(module.locals["cluster_figures"])
    of_records = {"function", "decision", "reason", "reasons", "message", "waited_seconds", "cluster"}
    assert named == of_records
    assert of_records | figures <= written
    measured = next(record for record in logged if record["message"] == "measured")
    assert set(ClusterFigures().describe()) == figures <= set(measured)
    swept = next(record for record in logged if record["message"] == "swept")
    assert swept["function"] == "sweep"
    assert set(swept["reasons"]) <= set(Reason)


def test_every_reason_that_is_counted_or_alarms_is_one(module: Configuration) -> None:
    # The exporter's metrics have reasons of their own.
    alerts = " ".join(each for each in list_texts(module.locals) if "tpu_provisioner_exporter_" not in each)
    named = set(module.locals["pool_states"].values()) | set(re.findall(r'reason=\\?"(\w+)\\?"', alerts))

    assert named
    assert named <= set(Reason)


def test_every_state_of_pools_is_counted_when_no_pool_has_it(module: Configuration) -> None:
    assert set(module.locals["pool_states"].values()) == set(CHARTED)


def test_every_failed_creation_that_alarms_is_a_reason_with_a_heading(module: Configuration) -> None:
    runbook = (ROOT / "docs/runbook.md").read_text()
    alarms = module.locals["failed_creations"]

    assert set(alarms) <= set(Reason)
    assert [each for each in alarms if f"### {each}\n" not in runbook] == []
    assert not set(alarms) & {Reason.STOCKOUT, Reason.QUOTA_EXCEEDED}, "these have alerts of their own"


def test_the_alert_about_autoscaled_pools_has_the_default_of_its_setting(module: Configuration) -> None:
    field = next(each for each in dataclasses.fields(Settings) if each.name == "autoscaled_pools_max")

    assert (
        module.locals["autoscaled_pools_max"] == f"${{try(tonumber(var.settings.{field.name}), {field.default})}}"
    )


def test_the_decisions_label_says_every_verdict(module: Configuration) -> None:
    labels = one(module, "google_logging_metric.decisions").body["metric_descriptor"][0]["labels"]
    answer = next(each["description"] for each in labels if each["key"] == "decision")

    assert set(re.findall(r"\w+", answer)) - {"or"} == {str(each) for each in Verdict} | {"reject", "none"}


def test_every_metric_of_the_exporter_that_is_read_exists(module: Configuration) -> None:
    named = {
        re.sub(r"_(total|bucket|sum|count)$", "", name)
        for text in list_texts(module.locals)
        for name in re.findall(r"tpu_provisioner_exporter_(\w+)", text)
    }
    sources = "\n".join(path.read_text() for path in (ROOT / "exporter").glob("*.py"))

    assert named >= {"is_leader", "oldest_unpublished_age_seconds"}
    assert [name for name in named if f'"{name}"' not in sources] == []


def test_events_that_pubsub_refuses_for_ever_are_in_the_alert_on_events(module: Configuration) -> None:
    (query,) = (text for text in list_texts(module.locals) if "exporter_oldest_unpublished_age_seconds" in text)

    assert f'publish_failures_total{{${{labels}},reason="{InvalidRequest.reason}"}}' in query.replace("\\", "")


def test_every_query_names_the_resource_of_its_metric() -> None:
    """A metric that several resource types can have needs it, and log-based ones are such metrics.

    https://cloud.google.com/monitoring/promql/promql-mapping
    """
    written = "".join((MODULE / name).read_text() for name in ("alerts.tf", "dashboard.tf", "metrics.tf"))
    name = r"(?:[a-z]+_googleapis_com:\w+|\$\{local\.metric\}(?:\w|\$\{[\w.]+\})+)(?!\w|\$)"
    found = re.findall(rf"({name})(.{{0,21}})", written)

    assert len(found) == len(re.findall(r"_googleapis_com:(?!user_)|\$\{local\.metric\}", written))
    assert [metric for metric, after in found if not after.startswith("{monitored_resource=")] == []


def test_every_alert_names_a_heading_of_the_runbook(module: Configuration) -> None:
    written = (MODULE / "alerts.tf").read_text()
    named = set(re.findall(r'heading += "([^"]+)"', written))

    assert len(named) == 16
    assert sorted(named - list_anchors(ROOT / "docs/runbook.md")) == []


def test_the_root_has_the_modules_variables_and_passes_each_on(module: Configuration) -> None:
    root = read_configuration(TERRAFORM / "provisioner")
    (call,) = root.of("module")

    assert variables(root) == variables(module)
    passed = {name: value for name, value in call.body.items() if name != "source"}
    assert passed == {name: f"${{var.{name}}}" for name in variables(module)}
    assert {each.name for each in root.of("output")} == {each.name for each in module.of("output")}


def test_a_roles_id_is_made_once_for_a_deployment(module: Configuration) -> None:
    assert one(module, "terraform_data.deployed_at").blocks("lifecycle") == [{"ignore_changes": ["input"]}]


def variables(configuration: Configuration) -> dict[str, tuple[str, str, Any]]:
    return {
        each.name: (each.body["type"], each.body["description"], each.body.get("default", "required"))
        for each in configuration.of("variable")
    }
