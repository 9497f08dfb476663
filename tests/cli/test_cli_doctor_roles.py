"""`doctor` finds missing rights of optional roles when a setting needs them, and names the role."""

from pathlib import Path
from typing import Any

import pytest

from cli.diagnosis.cluster_checks import KUEUE_RIGHTS, check_cluster, list_first_rights
from cli.diagnosis.findings import Finding, Result
from shared.core.kinds.table import KINDS
from shared.core.settings import ClusterSettings
from tests.builders import CLUSTER
from tests.cli.cli_world import NOWHERE, Reviewing, a_deployment, list_granted, with_settings

INFRA = Path(__file__).resolve().parents[2] / "infra/kubernetes"
CHECKS = {"capacity_first": "capacity first", "kueue_admission_check": "kueue"}
RIGHTS = {"capacity_first": set(list_first_rights(KINDS)), "kueue_admission_check": set(KUEUE_RIGHTS)}
FILES = {
    "capacity_first": "capacity-first/workload-rights.yaml",
    "kueue_admission_check": "kueue/kueue-rights.yaml",
}


def allow(rights: set[tuple[str, str, str]]) -> Reviewing:
    """Allow exactly some rights: group, resource with subresource, verb."""

    def allows(asked: dict[str, str]) -> bool:
        assert "/" not in asked["resource"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        return (asked["group"], resource, asked["verb"]) in rights

    return Reviewing(allows)


def find(
    setting: str, allowed: set[tuple[str, str, str]], *, on: bool = True, token_file: str = "", **use: Any
) -> Finding:
    """Return what is found of one role."""
    deployment = a_deployment()
    there = ClusterSettings(endpoint=NOWHERE, token_file=token_file)
    deployment = with_settings(deployment, **{"clusters": {CLUSTER: there}, setting: on, **use})
    deployment.apis[CLUSTER] = allow(allowed)
    (found,) = [each for each in check_cluster(deployment, CLUSTER) if each.check.endswith(f"c {CHECKS[setting]}")]
    return found


@pytest.mark.parametrize("setting", RIGHTS)
def test_a_role_is_not_needed_while_its_setting_is_off(setting: str) -> None:
    found = find(setting, set(), on=False)

    assert (found.result, found.text) == (Result.SKIPPED, f"not needed: the setting {setting} is off")


@pytest.mark.parametrize("setting", RIGHTS)
def test_with_all_rights_of_the_role_it_is_fine(setting: str) -> None:
    found = find(setting, RIGHTS[setting])

    assert found.result is Result.OK
    assert f"has all {len(RIGHTS[setting])} rights that the setting {setting} needs" in found.text


@pytest.mark.parametrize(("token_file", "result"), [("", Result.WARN), ("token", Result.BAD)])
@pytest.mark.parametrize(("setting", "right"), [(key, each) for key in RIGHTS for each in sorted(RIGHTS[key])])
def test_each_missing_right_is_named_with_the_command_that_applies_the_role(
    setting: str, right: tuple[str, str, str], token_file: str, result: Result
) -> None:
    found = find(setting, RIGHTS[setting] - {right}, token_file=token_file)

    _, resource, verb = right
    message = f"the setting {setting} is on, but this identity does not have the rights: {verb} {resource}"
    assert (found.result, found.text) == (result, message)
    folder = FILES[setting].partition("/")[0]
    assert found.mend == (
        f'kubectl kustomize infra/kubernetes/{folder} | sed "s/PROJECT_ID/$PROJECT_ID/" | kubectl apply -f -'
    )


def test_kinds_that_are_not_served_need_no_rights() -> None:
    jobs = {each for each in RIGHTS["capacity_first"] if each[1] == "jobs"}

    assert find("capacity_first", jobs, kinds=("Job",)).result is Result.OK


@pytest.mark.parametrize("setting", RIGHTS)
def test_the_rights_are_those_of_the_role(setting: str) -> None:
    assert list_granted(INFRA / FILES[setting]) == RIGHTS[setting]
