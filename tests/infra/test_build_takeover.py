"""What a killed build left is imported: each type by its name, or by its display name."""

import re
from typing import Any

from infra.build.adopt import CANNOT_CLASH, IMPORT_IDS, find_existing
from infra.build.adopt import list_imports as list_existing
from infra.build.find_by_name import NAMED, list_imports
from tests.infra.pretended_deployment import a_change, a_plan
from tests.infra.terraform_cli import MODULES, TERRAFORM
from tests.infra.terraform_text import read_configuration


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


ERRORS = """\
\x1b[31m╷\x1b[0m
\x1b[31m│\x1b[0m \x1b[1m\x1b[31mError: \x1b[0mError creating Network: Error 409: network "x" already exists
\x1b[31m│\x1b[0m
\x1b[31m│\x1b[0m   with module.environment.google_compute_network.this[0],
\x1b[31m│\x1b[0m   on ../modules/environment/network.tf line 14:
\x1b[31m╵\x1b[0m
\x1b[31m╷\x1b[0m
\x1b[31m│\x1b[0m \x1b[1m\x1b[31mError: \x1b[0mError creating Topic: googleapi: Error 403: denied
\x1b[31m│\x1b[0m   with module.provisioner.google_pubsub_topic.workload_events,
\x1b[31m╵\x1b[0m
\x1b[31m│\x1b[0m \x1b[1m\x1b[31mError: \x1b[0mError creating account: alreadyExists
\x1b[31m│\x1b[0m   with module.provisioner.google_service_account.this["build"],
\x1b[31m│\x1b[0m \x1b[1m\x1b[31mError: \x1b[0mCustom project role r already exists and must be imported
\x1b[31m│\x1b[0m   with module.provisioner.google_project_iam_custom_role.node_pools["p"],
"""


def test_only_what_exists_already_is_taken_over() -> None:
    network = "module.environment.google_compute_network.this[0]"
    account = 'module.provisioner.google_service_account.this["build"]'
    role = 'module.provisioner.google_project_iam_custom_role.node_pools["p"]'
    plan = a_plan(
        a_change(network, "create", after={"project": "p", "name": "training", "mtu": 1460}),
        a_change(account, "create", after={"project": "p", "account_id": "b"}),
        a_change(role, "create", after={"project": "p", "role_id": "r"}),
    )

    assert find_existing(ERRORS) == [network, account, role]
    blocks = list(list_existing(plan, find_existing(ERRORS)))
    assert blocks == [
        f'import {{\n  to = {network}\n  id = "projects/p/global/networks/training"\n}}\n',
        f'import {{\n  to = {account}\n  id = "projects/p/serviceAccounts/b@p.iam.gserviceaccount.com"\n}}\n',
        f'import {{\n  to = {role}\n  id = "projects/p/roles/r"\n}}\n',
    ]
