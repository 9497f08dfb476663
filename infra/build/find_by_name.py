#!/usr/bin/env python3
"""Finds what exists and what a second create would not fail on, such as after a killed build.

Google chooses the identifiers of some resources: without this, an alert or a dashboard would exist
twice. And the provider takes over a log sink of the same name, also if it is of others. For each
one that the plan creates, this program asks gcloud for those with the same display name (of a sink:
the same name), and writes an import block. The plan with these blocks is then refused if one of
them is of others (adopt.py --check).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":  # as a script, only this folder is on the import path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from infra.build.adopt import read_display_name, render_import

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass(frozen=True)
class Kind:
    """One type of resource that Google names itself."""

    words: str
    """What gcloud lists these with."""
    import_id: str
    """As Terraform's provider imports one; `own` is what Google chose."""
    key: str = "displayName"
    """Where gcloud's answer has what ours is called."""


NAMED = {
    "google_logging_project_sink": Kind(
        "logging sinks describe {name} --project={project}", "projects/{project}/sinks/{own}", key="name"
    ),
    "google_billing_budget": Kind(
        "billing budgets list --billing-account={billing_account}",
        "billingAccounts/{billing_account}/budgets/{own}",
    ),
    # gcloud has no other command for them than this one.
    "google_monitoring_alert_policy": Kind(
        "alpha monitoring policies list --project={project}", "projects/{project}/alertPolicies/{own}"
    ),
    "google_monitoring_dashboard": Kind(
        "monitoring dashboards list --project={project}", "projects/{project}/dashboards/{own}"
    ),
    "google_monitoring_notification_channel": Kind(
        "beta monitoring channels list --project={project}", "projects/{project}/notificationChannels/{own}"
    ),
    "google_vertex_ai_tensorboard": Kind(
        "ai tensorboards list --project={project} --region={region}",
        "projects/{project}/locations/{region}/tensorboards/{own}",
    ),
}
_LABELLED = ("google_vertex_ai_tensorboard",)
"""Their display names do not have NAME in them, but they have our label."""
_NOTHING = re.compile("NOT_FOUND|SERVICE_DISABLED|has not been used|is disabled", re.IGNORECASE)


def list_imports(
    plan: Mapping[str, Any], name: str, ask: Callable[[str], list[dict[str, Any]]], say: Callable[[str], None]
) -> Iterator[str]:
    """Yield the import block of each resource that the plan creates and that exists already.

    Args:
        plan: Terraform's plan.
        name: The deployment's name.
        ask: Lists what gcloud finds with these words.
        say: Tells the person who reads the build's output.
    """
    answers: dict[str, list[dict[str, Any]]] = {}
    for each in plan.get("resource_changes", ()):
        kind = NAMED.get(each["type"])
        if kind is None or each["change"]["actions"] != ["create"]:
            continue
        values = each["change"]["after"]
        words, wanted = kind.words.format_map(values), read_display_name(values) or values.get("name")
        if words not in answers:
            answers[words] = ask(words)
        found = [
            other["name"]
            for other in answers[words]
            if other.get(kind.key) == wanted
            and (each["type"] not in _LABELLED or (other.get("labels") or {}).get("app") == name)
        ]
        if not found:
            continue
        own = found[0].rpartition("/")[2]
        say(f"{wanted} exists already ({found[0]}), so it is imported")
        for more in found[1:]:
            say(f"{wanted} exists more than once; delete {more} by hand")
        yield render_import(each["address"], kind.import_id.format_map(values | {"own": own}))


def ask_gcloud(words: str) -> list[dict[str, Any]]:
    """Return what gcloud finds; if it cannot, say so and return nothing."""
    command = ["gcloud", *words.split(), "--format=json(name,displayName,labels)", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 -- no shell
    if done.returncode == 0:
        answer = json.loads(done.stdout or "[]")
        listed: list[dict[str, Any]] = answer if isinstance(answer, list) else [answer]
        return listed
    if not _NOTHING.search(done.stderr):
        sys.stderr.write(done.stderr)
        _say(
            f"Not checked: whether a killed build has left any of `gcloud {words}`, because they cannot be listed"
        )
    return []


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Write the import blocks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, required=True, help="the plan, from `terraform show -json`")
    parser.add_argument("--output", type=Path, required=True, help="the file that gets the import blocks")
    arguments = parser.parse_args()
    plan = json.loads(arguments.plan.read_text(encoding="utf-8"))
    blocks = list(list_imports(plan, os.environ["NAME"], ask_gcloud, _say))
    arguments.output.write_text("".join(blocks), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
