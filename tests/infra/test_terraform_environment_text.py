"""What the training environment passes on, and what it shares with the public one.

Needs no `terraform`: the configurations are read as text.
"""

import hashlib
import re
from functools import cache

import pytest

from shared.core.settings import Settings
from tests.builders import OWNER_KEYS
from tests.infra.build_scripts import OLD_COMMAND_LINE
from tests.infra.terraform_cli import CONFIGURATIONS, ROOT, TERRAFORM
from tests.infra.terraform_text import Configuration, read_configuration

FOLDERS = ("modules/environment", "modules/environment/modules/tpu_pools", "complete")
PUBLIC_DEFAULTS = {
    "tensorboard_region": "us-central1",
    "subnet_ip_range": "10.129.0.0/20",
    "services_ip_range": "192.168.80.0/20",
    "gke_release_channel": "STABLE",
    "cpu_pool_node_count": 3,
    "tpu_sa_name": "cloud-tpu-sa",
    "gke_sa_name": "gke-sa",
    "tpu_namespace": "tpu-training",
    "max_pods_per_node": 110,
    "tpu_type": "v4-16",
    "enable_tpu_autoscaling": False,
    "tpu_node_pool_name_prefix": "tpu-node-pool",
    "multislice_group_name": "multi-slice-group",
}
CHANGED_DEFAULTS = {
    "force_destroy": "checkpoints are lost with it",
    "pods_ip_range": "a /20 holds 16 nodes",
    "cpu_pool_machine_type": "two generations newer",
    "cpu_pool_disk_type": "pulls images faster",
    "cpu_pool_disk_size": "three of them and one slice are more than a new project's 500 GB",
    "tpu_sa_roles": "every bucket of the project",
    "gke_sa_roles": "every bucket of the project",
    "num_tpu_pools": "pools come on demand",
}
"""What has another default than in public, and what was wrong with that."""
MANIFEST = """{
    "version": 1,
    "metadata": {
        "protocol_versions": ["5.0"]
    }
}
"""
"""terraform-registry-manifest.json, the one file of the provider's releases that is known here."""
GIVEN = set(
    """
    region zone project_id artifact_repository_bucket_name network_name subnet_name cluster_name tensorboard_name
    gke_version cluster_description
    """.split()  # noqa: SIM905 -- a list of ten lines says no more
)
"""What had no default in public."""
PUBLIC_NAMES = {*PUBLIC_DEFAULTS, *CHANGED_DEFAULTS, *GIVEN}
"""The variables of https://github.com/jarokaz/tpu-gke-sandbox: users can keep their values."""
PLACES = {"project_id", "region"}
"""What both modules want, each for its own things: the complete root describes it anew."""
LINKED = {"clusters", "node_service_accounts", "region", "settings"}
"""What the complete root adds something of the environment to before it passes it on."""


@cache
def read(folder: str) -> Configuration:
    return read_configuration(TERRAFORM / folder)


def variables(folder: str) -> dict[str, dict[str, object]]:
    """Return what is said of each variable, without its validations."""
    return {
        each.name: {key: value for key, value in each.body.items() if key in {"type", "description", "default"}}
        for each in read(folder).of("variable")
    }


@pytest.mark.parametrize("module", ["environment", "provisioner"])
def test_the_complete_root_passes_every_variable_on(module: str) -> None:
    (call,) = [each for each in read("complete").of("module") if each.name == module]
    wanted = set(variables(f"modules/{module}"))

    passed = {name: value for name, value in call.body.items() if name in wanted}

    assert set(passed) == wanted
    assert {name for name, value in passed.items() if value != f"${{var.{name}}}"} <= LINKED


@pytest.mark.parametrize("module", ["environment", "provisioner"])
def test_a_variable_of_the_complete_root_is_that_of_the_module(module: str) -> None:
    root, theirs = variables("complete"), variables(f"modules/{module}")

    assert {name: root[name] for name in theirs if name not in LINKED | PLACES} == {
        name: text for name, text in theirs.items() if name not in LINKED | PLACES
    }
    assert all(root[name]["type"] == theirs[name]["type"] and "default" not in root[name] for name in PLACES)


def test_the_complete_root_says_everything_that_its_modules_say() -> None:
    fields = {each.name: each.body for each in read("complete").of("output")}

    for module in ("environment", "provisioner"):
        theirs = {each.name for each in read(f"modules/{module}").of("output")} - {"cluster"}
        assert {name: fields[name]["value"] for name in theirs} == {
            name: f"${{module.{module}.{name}}}" for name in theirs
        }


def test_the_state_is_kept_in_a_bucket_that_the_build_names() -> None:
    backends = [each["backend"] for each in read("complete").settings if "backend" in each]

    assert [list(each) for each in backends[0]] == [["gcs"]]


def test_users_of_the_public_environment_find_their_variables() -> None:
    ours = variables("modules/environment")

    assert set(ours) >= PUBLIC_NAMES
    assert {name: ours[name]["default"] for name in PUBLIC_DEFAULTS} == PUBLIC_DEFAULTS
    assert len(PUBLIC_NAMES) == 31


def test_the_page_about_the_public_environment_has_a_place_for_every_variable_of_it() -> None:
    page = (ROOT / "docs/training-environment.md").read_text()
    ours = variables("modules/environment")
    (table,) = re.findall(r"another default:\n\n(.*?)\n\n", page, re.DOTALL)
    changed = dict(re.findall(r"^\| `(\w+)` \| .*? \| (.*?) \|", table, re.MULTILINE))

    assert {name for name in PUBLIC_NAMES if f"`{name}`" not in page} == set()
    assert set(changed) == set(CHANGED_DEFAULTS)
    for name, written in changed.items():
        default = ours[name]["default"]
        listed = [each.removeprefix("roles/") for each in default] if isinstance(default, list) else [default]
        assert written.strip("`") == ", ".join(str(each) for each in listed).replace("False", "false")
    section = page[page.index("## Cloud Build") :]
    assert set(OLD_COMMAND_LINE) <= set(re.findall(r"`(_[A-Z_]+)`", section))


def test_no_static_pool_carries_a_label_of_the_provisioners_own() -> None:
    written = "\n".join(text for folder in FOLDERS for text in read(folder).strings())

    assert [key for key in sorted(OWNER_KEYS) if key in written] == []


def test_both_modules_call_workload_policies_alike_by_default() -> None:
    assert variables("modules/environment")["workload_policy_prefix"]["default"] == (
        Settings(clusters={}).workload_policy_prefix
    )


def test_kubernetes_objects_are_left_to_the_build() -> None:
    """A Kubernetes provider in the state of the cluster that it needs breaks plan and destroy."""
    providers = {
        name
        for folder in FOLDERS
        for each in read(folder).settings
        for found in each.get("required_providers", [])
        for name in found
    }

    assert providers == {"google"}
    assert not list((ROOT / "infra/terraform").rglob("*.yaml"))


def test_both_roots_lock_one_version_of_the_range_by_the_same_checksums() -> None:
    locks = {(TERRAFORM / root / ".terraform.lock.hcl").read_text() for root in ("complete", "provisioner")}
    text = "".join(locks)
    (ranges,) = {
        found["google"]["version"]
        for folder in CONFIGURATIONS
        for each in read(folder).settings
        for found in each.get("required_providers", [])
    }
    archives = re.findall(r'^    "zh:([0-9a-f]{64})",$', text, re.MULTILINE)

    assert len(locks) == 1
    assert f'constraints = "{ranges}"' in text
    assert re.findall(r'version     = "(\d+\.\d+)\.\d+"', text) == [ranges.removeprefix("~> ")]
    assert len(archives) == 12
    assert archives == sorted(set(archives))
    assert hashlib.sha256(MANIFEST.encode()).hexdigest() in archives
