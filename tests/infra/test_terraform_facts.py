"""The modules and the code agree on filters, settings, reasons and log fields.

Needs no `terraform`: the configurations are read as text.
"""

import json
import logging
import re

import pytest

from demo.objects import ACK_DEADLINE_SECONDS, DELIVERY_ATTEMPTS_MAX, FILTERS
from exporter.exporter_settings import read_exporter_settings
from infra.build.write_catalogue import TARGET, list_slices, render
from shared.deliver import deliver, deliver_tick
from shared.edges.process import StructuredFormatter
from shared.engine.outside import Role
from shared.model.decisions import Reason
from shared.settings import PREFIX, Settings
from tests.builders import CLUSTER, a_demand_event, a_pool, a_push
from tests.engine.world import World
from tests.infra.bench import PUBLIC
from tests.infra.terraform_text import CONFIGURATIONS, ROOT, TERRAFORM, read_configuration
from tests.tidy.test_documents import RUNBOOK, list_anchors

MODULE = read_configuration(TERRAFORM / "modules/provisioner")
BLOCKS = {each.address: each.body for each in MODULE.blocks}
SET_BY_THE_MODULE = {"clusters", "node_service_account", "allowed_node_service_accounts", "own_namespace"}
OF_OWNERS = re.compile(
    r"google_((project|service_account|folder|organization)_iam.*|service_account|project_service)"
)
SAME_FOR_ALL = {"credentials", "gke_endpoint"}
"""Meant for stand-ins; in the cloud the defaults are right."""
PUBLIC_SHAPES = {
    "v4-4096": ("ct4p-hightpu-4t", "8x16x16", 512),
    "v5litepod-16": ("ct5lp-hightpu-4t", "4x4", 4),
    "v3-8": ("ct3-hightpu-4t", "2x2", 1),
    "v5e-1": ("ct5lp-hightpu-1t", "1x1", 1),
    "v5e-8": ("ct5lp-hightpu-8t", "2x4", 1),
    "v5p-8": ("ct5p-hightpu-4t", "2x2x1", 1),
    "v5p-128": ("ct5p-hightpu-4t", "4x4x4", 16),
    "v6e-8": ("ct6e-standard-8t", "2x4", 1),
    "v6e-256": ("ct6e-standard-4t", "16x16", 64),
    "tpu7x-8": ("tpu7x-standard-4t", "2x2x1", 1),
    "tpu7x-16": ("tpu7x-standard-4t", "2x2x2", 2),
}
"""As https://cloud.google.com/tpu/docs lists them: machine type, topology, hosts."""


def test_the_subscriptions_filter_wait_and_try_as_on_the_laptop() -> None:
    push = BLOCKS["google_pubsub_subscription.push"]
    filters = {name: (text or "").replace('\\"', '"') for name, text in MODULE.locals["filters"].items()}

    assert filters == {name: FILTERS[name] for name in ("provision", "collect")}
    assert push["ack_deadline_seconds"] == "${local.timeout_seconds}"
    assert MODULE.locals["timeout_seconds"] == ACK_DEADLINE_SECONDS
    assert push["dead_letter_policy"][0]["max_delivery_attempts"] == DELIVERY_ATTEMPTS_MAX


def test_the_settings_of_the_module_are_those_of_the_functions() -> None:
    free = set(MODULE.locals["settings_free"])

    assert free | SET_BY_THE_MODULE | SAME_FOR_ALL == set(Settings.__struct_fields__)
    assert not free & (SET_BY_THE_MODULE | SAME_FOR_ALL)
    written = {name.lower() for name in re.findall(rf"{PREFIX}([A-Z_]+) +=", MODULE.text)}
    assert written - {"kueue_admission_check"} == SET_BY_THE_MODULE


def test_the_exporters_environment_in_the_outputs_is_valid() -> None:
    values = str(BLOCKS["output.helm_values"]["value"])
    names = set(re.findall(rf"{PREFIX}[A-Z_]+", values))

    assert names == {f"{PREFIX}KUEUE_ADMISSION_CHECK"}
    topic = "projects/p/topics/tpu-provisioner-workload-events"
    environ = {f"{PREFIX}CLUSTER": CLUSTER, f"{PREFIX}TOPIC": topic}
    assert read_exporter_settings(environ | dict.fromkeys(names, "true")).kueue_admission_check


def test_every_log_field_that_is_counted_is_written(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.wait(0)
    with caplog.at_level(logging.INFO, "functions"):
        deliver(Role.PROVISION, a_push(a_demand_event()), world.ports)
        for function in (world.provisioner, world.collector):
            deliver_tick(function.role, CLUSTER, function.ports)
    logged = [json.loads(StructuredFormatter("test").format(each)) for each in caplog.records]
    named = set(re.findall(r"jsonPayload\.(\w+)", MODULE.text))
    written = {field for record in logged for field in record}

    of_records = {"function", "wake", "decision", "reason", "waited_seconds", "cluster", "counts"}
    assert named == of_records
    assert of_records | set(MODULE.locals["cluster_figures"]) <= written
    ticks = [record for record in logged if "counts" in record]
    assert [(each["wake"], each["function"], each["cluster"]) for each in ticks] == [
        ("tick", str(role), CLUSTER) for role in Role
    ]


def test_every_reason_that_is_counted_or_alarms_is_one() -> None:
    # The exporter's metrics have reasons of their own.
    text = re.sub(r"tpu_provisioner_exporter_\w+\{\$\{labels\}[^}]*\}", "", MODULE.text)
    named = set(re.findall(r'reason=\\*"(\w+)', text))

    assert {"limit_passed", "deletions_over_cap"} <= named
    assert named | set(MODULE.locals["failed_creations"]) <= set(Reason)


def test_every_metric_of_the_exporter_that_is_read_exists() -> None:
    texts = re.findall(r"tpu_provisioner_exporter_(\w+)", MODULE.text)
    named = {re.sub(r"_(total|bucket|sum|count)$", "", each) for each in texts}
    sources = "\n".join(path.read_text() for path in (ROOT / "exporter").glob("*.py"))

    assert named >= {"is_leader", "oldest_unpublished_age_seconds"}
    assert [name for name in named if f'"{name}"' not in sources] == []


def test_every_alert_names_a_heading_of_the_runbook() -> None:
    named = set(re.findall(r'heading += "([^"]+)"', MODULE.text))

    assert len(named) == 19
    assert sorted(named - list_anchors(RUNBOOK)) == []


@pytest.mark.parametrize("name", ["provisioner", "environment"])
def test_the_root_passes_each_variable_of_a_module_on_and_knows_all_names(name: str) -> None:
    root, module = read_configuration(TERRAFORM), read_configuration(TERRAFORM / f"modules/{name}")
    (call,) = [each for each in root.of("module") if each.name == name]
    declared = {each.name for each in module.of("variable")}

    assert declared <= call.body.keys()
    assert set(root.locals[f"{name}_names"]) <= declared
    own = {each.name for each in root.of("variable")} | {"node_service_account", "functions_archive"}
    assert declared - set(root.locals[f"{name}_names"]) <= own | {"region"}


def test_every_substitution_of_the_public_environment_has_its_place() -> None:
    root = read_configuration(TERRAFORM)
    names = {name.removeprefix("_") for name in PUBLIC} - {"TF_STATE_BUCKET", "TF_STATE_PREFIX"}

    assert names == {*root.locals["substituted"], "JOBSET_API_VERSION", "KUEUE_API_VERSION"}
    assert set(root.locals["substituted"].values()) <= set(root.locals["environment_names"])


def test_no_build_grants_anything_on_the_project_an_account_or_a_role() -> None:
    """infra/bootstrap.sh does; the builds' account has no right to."""
    for folder in CONFIGURATIONS:
        types = {each.type for each in read_configuration(TERRAFORM / folder).of("resource")}
        assert [each for each in types if OF_OWNERS.fullmatch(each)] == []


@pytest.mark.parametrize("folder", CONFIGURATIONS)
def test_messages_are_kept_and_nobody_unknown_has_a_right(folder: str) -> None:
    configuration = read_configuration(TERRAFORM / folder)

    for each in configuration.of("resource", "google_pubsub_subscription"):
        assert each.body["expiration_policy"] == [{"ttl": ""}], "an idle one is deleted"
        for push in each.body.get("push_config", ()):
            short = each.body.get("message_retention_duration") == "600s"
            assert short or each.body["dead_letter_policy"], "one message that always fails slows all others"
            assert {"service_account_email", "audience"} <= push["oidc_token"][0].keys()
    wide = re.findall(r'"(allUsers|allAuthenticatedUsers|roles/(?:owner|editor|viewer))"', configuration.text)
    assert wide == []
    assert [key for key in a_pool().labels if key in configuration.text] == [], "no static pool is ours"


def test_the_lock_file_has_the_checksums_of_each_provider() -> None:
    text = (TERRAFORM / ".terraform.lock.hcl").read_text()

    assert re.findall(r'^provider "registry.terraform.io/hashicorp/(\w+)"', text, re.MULTILINE) == [
        "google",
        "archive",
    ]
    assert len(re.findall(r'^    "zh:[0-9a-f]{64}",$', text, re.MULTILINE)) == 2 * 12, "one for each platform"
    assert 'constraints = "~> 7.45"' in text


def test_the_catalogue_is_the_functions_own_and_a_public_name_means_the_public_shape() -> None:
    assert TARGET.read_text() == render(), "run: python -m infra.build.write_catalogue"
    slices = list_slices()
    shapes = {name: slices[name] for name in PUBLIC_SHAPES}
    assert {
        name: (each.machine.name, each.topology, each.node_count) for name, each in shapes.items()
    } == PUBLIC_SHAPES
