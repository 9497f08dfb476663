"""What a killed build left is imported: each type by its name, or by its display name."""

import re
from pathlib import Path
from typing import Any

import pytest

from infra.build.adopt import CANNOT_CLASH, IMPORT_IDS, refuse_strangers
from infra.build.find_by_name import NAMED, list_imports
from tests.infra.build_scripts import OLD_COMMAND_LINE, Bench
from tests.infra.pretended_deployment import a_change, a_plan
from tests.infra.terraform_cli import MODULES, TERRAFORM
from tests.infra.terraform_text import read_configuration

POLICIES = "alpha monitoring policies list"
POLICY = 'module.provisioner.google_monitoring_alert_policy.this["dead_letters"]'
CALLED = "tpu-provisioner: google_monitoring_alert_policy"
"""As the pretended plan calls it."""


def test_every_type_that_terraform_makes_is_taken_over_or_cannot_clash() -> None:
    kinds = {
        each.type
        for folder in MODULES
        for each in read_configuration(TERRAFORM / folder).of("resource")
        if not re.search(r"_iam_(member|binding)$", each.type)  # the same grant can be given twice
    }

    assert kinds == {*IMPORT_IDS, *NAMED, *CANNOT_CLASH}
    assert len(kinds) == len(IMPORT_IDS) + len(NAMED) + len(CANNOT_CLASH)


def planned(kind: str, **after: Any) -> dict[str, Any]:
    return a_change(f"module.m.{kind}.this", "create", after={"project": "p"} | after)


def find(changes: list[dict[str, Any]], held: dict[str, list[dict[str, Any]]]) -> tuple[list[str], list[str]]:
    messages: list[str] = []
    blocks = list_imports(a_plan(*changes), "blue", lambda words: held.get(words, []), messages.append)
    return [each.split('id = "')[1].split('"')[0] for each in blocks], messages


def test_each_type_is_imported_by_the_identifier_that_google_gave_it() -> None:
    changes = [
        planned("google_monitoring_alert_policy", display_name="blue: dead letters"),
        planned("google_monitoring_dashboard", dashboard_json='{"displayName": "TPU provisioner: blue"}'),
        planned("google_monitoring_notification_channel", display_name="blue: a@b.io"),
        planned("google_billing_budget", billing_account="0-1", display_name="blue: month"),
        planned("google_vertex_ai_tensorboard", region="us-central1", display_name="training-tensorboard"),
    ]
    boards = "ai tensorboards list --project=p --region=us-central1"
    listed = (
        ("alpha monitoring policies list --project=p", "projects/p/alertPolicies/1", "blue: dead letters"),
        ("alpha monitoring policies list --project=p", "projects/p/alertPolicies/2", "green: dead letters"),
        ("monitoring dashboards list --project=p", "projects/123/dashboards/3", "TPU provisioner: blue"),
        ("beta monitoring channels list --project=p", "projects/p/notificationChannels/4", "blue: a@b.io"),
        ("billing budgets list --billing-account=0-1", "billingAccounts/0-1/budgets/5", "blue: month"),
        (boards, "projects/123/locations/us-central1/tensorboards/6", "training-tensorboard"),
        (boards, "projects/123/locations/us-central1/tensorboards/7", "training-tensorboard"),
    )
    held: dict[str, list[dict[str, Any]]] = {words: [] for words, _, _ in listed}
    for words, name, title in listed:
        held[words].append({"name": name, "displayName": title})
    held[boards][1]["labels"] = {"app": "blue"}
    found, answer = find(changes, held)

    assert found == [
        "projects/p/alertPolicies/1",
        "projects/p/dashboards/3",
        "projects/p/notificationChannels/4",
        "billingAccounts/0-1/budgets/5",
        "projects/p/locations/us-central1/tensorboards/7",
    ]
    assert len(answer) == 5


def test_what_the_state_has_is_not_looked_for_and_one_more_of_a_name_is_told() -> None:
    policy = planned("google_monitoring_alert_policy", display_name="blue: x")
    held = [{"name": f"projects/p/alertPolicies/{number}", "displayName": "blue: x"} for number in (1, 2)]
    found, answer = find([policy], {"alpha monitoring policies list --project=p": held})
    assert found == ["projects/p/alertPolicies/1"]
    assert "blue: x exists more than once; delete projects/p/alertPolicies/2 by hand" in answer

    policy["change"]["actions"] = ["no-op"]
    assert find([policy], {"alpha monitoring policies list --project=p": held}) == ([], [])


@pytest.mark.parametrize(("name", "ours"), [("blue", True), ("green", False)])
def test_the_dashboard_shows_by_its_title_whose_it_is(name: str, ours: bool) -> None:
    before = {"dashboard_json": f'{{"displayName": "TPU provisioner: {name}"}}'}
    board = a_change("module.m.google_monitoring_dashboard.this", importing={"id": "i"}, before=before)

    assert (refuse_strangers(a_plan(board), {"NAME": "blue"}) == "") == ours


def provision(bench: Bench, **world: Any) -> str:
    bench.change(**world)
    return bench.apply(OLD_COMMAND_LINE).stdout


def test_the_build_imports_an_alert_that_a_killed_one_left(bench: Bench) -> None:
    answer = provision(
        bench, named={POLICIES: [{"name": "projects/a-project/alertPolicies/1", "displayName": CALLED}]}
    )

    adopted = (bench.folder / "build/roots/complete/adopted.tf").read_text()
    assert adopted == f'import {{\n  to = {POLICY}\n  id = "projects/a-project/alertPolicies/1"\n}}\n'
    assert f"{CALLED} exists already" in answer
    assert "exists already" not in provision(bench)  # the state has it now


@pytest.mark.parametrize(
    ("answer", "told"),
    [("ERROR: PERMISSION_DENIED", True), ("ERROR: SERVICE_DISABLED: the API is disabled", False)],
)
def test_a_list_that_cannot_be_had_is_told_and_ends_no_build(
    bench: Bench, tmp_path: Path, answer: str, told: bool
) -> None:
    provision(bench)
    number = next(index for index, call in enumerate(bench.calls, 1) if call[1:5] == POLICIES.split())
    (tmp_path / "again").mkdir()
    found_answer = provision(Bench.make(tmp_path / "again"), fail_at=number, fail_text=answer)

    assert ("Not checked: whether a killed build has left any of `gcloud alpha monitoring" in found_answer) == told
