"""Our rules for Terraform: on every module and root, and on examples that break them.

Needs no `terraform`: the configurations are read as text.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.infra.terraform_cli import CONFIGURATIONS, TERRAFORM
from tests.infra.terraform_policies import POLICIES, validations_are_tested
from tests.infra.terraform_text import Configuration, read_configuration, read_test_runs

GOOD = """
terraform {
  required_version = ">= 1.11"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 7.45"
    }
  }
}

variable "days" {
  type        = number
  description = "Days."

  validation {
    condition     = var.days > 0
    error_message = "Must be 1 or more."
  }
}

output "topic" {
  description = "The topic."
  value       = google_pubsub_topic.events.id
}

resource "google_pubsub_topic" "events" {
  name = "events"
}

resource "google_pubsub_subscription" "push" {
  name  = "push"
  topic = google_pubsub_topic.events.id

  push_config {
    push_endpoint = "https://example.com"

    oidc_token {
      service_account_email = "push@p.iam.gserviceaccount.com"
      audience              = "https://example.com"
    }
  }

  dead_letter_policy {
    dead_letter_topic = google_pubsub_topic.events.id
  }

  expiration_policy {
    ttl = ""
  }
}

resource "google_cloud_run_v2_service" "it" {
  template {
    containers {
      image = "example.com/it@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    }
  }
}

resource "google_project_iam_member" "reader" {
  role   = "roles/storage.objectViewer"
  member = "serviceAccount:reader@p.iam.gserviceaccount.com"
}

module "network" {
  source  = "terraform-google-modules/network/google"
  version = "11.1.1"
}
"""
DIGEST = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
EVERY = {
    "expiry": ('  expiration_policy {\n    ttl = ""\n  }\n', "", "subscriptions_last"),
    "expiry after a month": ('ttl = ""', 'ttl = "2678400s"', "subscriptions_last"),
    "dead letters": (
        "  dead_letter_policy {\n    dead_letter_topic = google_pubsub_topic.events.id\n  }\n",
        "",
        "pushes_have_dead_letters",
    ),
    "audience": ('      audience              = "https://example.com"\n', "", "pushes_prove_who_they_are"),
    "everybody": ("serviceAccount:reader@p.iam.gserviceaccount.com", "allUsers", "nobody_anonymous"),
    "everybody with an account": (
        "serviceAccount:reader@p.iam.gserviceaccount.com",
        "allAuthenticatedUsers",
        "nobody_anonymous",
    ),
    "owner": ("roles/storage.objectViewer", "roles/owner", "no_primitive_roles"),
    "editor": ("roles/storage.objectViewer", "roles/editor", "no_primitive_roles"),
    "viewer": ("roles/storage.objectViewer", "roles/viewer", "no_primitive_roles"),
    "version of Terraform": ('  required_version = ">= 1.11"\n', "", "versions_are_pinned"),
    "version of a provider": ('version = "~> 7.45"', 'version = ">= 7"', "versions_are_pinned"),
    "version of a module": ('  version = "11.1.1"\n', "", "versions_are_pinned"),
    "digest": (DIGEST, ":latest", "images_are_pinned"),
    "an end before a beginning": (
        '  name = "events"\n',
        '  name = "events"\n\n  lifecycle {\n    create_before_destroy = true\n  }\n',
        "nothing_is_created_before_it_is_destroyed",
    ),
    "description": ('  description = "Days."\n', "", "variables_explain_themselves"),
    "type": ("  type        = number\n", "", "variables_explain_themselves"),
    "description of an output": ('  description = "The topic."\n', "", "variables_explain_themselves"),
    "what would be valid": ("Must be 1 or more.", "Invalid days.", "validations_say_what_is_valid"),
}
"""Each takes away what one rule wants: what is replaced, by what, and which rule must say so."""


def parse(folder: Path, text: str) -> Configuration:
    (folder / "main.tf").write_text(text)
    return read_configuration(folder)


@pytest.mark.parametrize("folder", CONFIGURATIONS)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.__name__)
def test_the_configuration_keeps_the_rule(folder: str, policy: Callable[[Configuration], list[str]]) -> None:
    configuration = read_configuration(TERRAFORM / folder)

    assert len(configuration.blocks) > 10
    assert policy(configuration) == []


@pytest.mark.parametrize("folder", CONFIGURATIONS)
def test_every_validation_has_a_failing_case(folder: str) -> None:
    configuration, runs = read_configuration(TERRAFORM / folder), read_test_runs(TERRAFORM / folder)

    assert runs
    assert validations_are_tested(configuration, runs) == []


def test_no_rule_is_against_a_good_configuration(tmp_path: Path) -> None:
    assert [found for policy in POLICIES for found in policy(parse(tmp_path, GOOD))] == []


@pytest.mark.parametrize(("good", "bad", "rule"), EVERY.values(), ids=EVERY)
def test_a_rule_says_what_is_wrong(tmp_path: Path, good: str, bad: str, rule: str) -> None:
    assert good in GOOD
    configuration = parse(tmp_path, GOOD.replace(good, bad))

    assert {policy.__name__ for policy in POLICIES if policy(configuration)} == {rule}


def test_every_rule_has_an_example_that_breaks_it() -> None:
    assert {rule for _, _, rule in EVERY.values()} == {policy.__name__ for policy in POLICIES}


def test_a_validation_without_a_failing_case_is_found(tmp_path: Path) -> None:
    configuration = parse(tmp_path, GOOD)

    assert validations_are_tested(configuration, [{"expect_failures": ["${var.days}"]}]) == []
    assert validations_are_tested(configuration, [{"expect_failures": ["${var.name}"]}]) == [
        "variable.days: 1 validations, 0 failing cases"
    ]


def test_subscriptions_made_in_a_dynamic_block_are_seen_too(tmp_path: Path) -> None:
    text = """
    resource "google_pubsub_subscription" "push" {
      dynamic "push_config" {
        for_each = [1]
        content {
          push_endpoint = "https://example.com"
        }
      }
    }
    """
    broken = {policy.__name__ for policy in POLICIES if policy(parse(tmp_path, text))}

    assert broken >= {"subscriptions_last", "pushes_have_dead_letters", "pushes_prove_who_they_are"}
