"""`doctor` finds missing rights of the optional role when its setting needs them, and names it."""

from pathlib import Path

import pytest

from cli.diagnosis.cluster_checks import KUEUE_RIGHTS, check_cluster
from cli.diagnosis.findings import Finding, Result
from shared.settings import ClusterSettings
from tests.builders import CLUSTER
from tests.cli.cli_world import NOWHERE, Reviewing, a_deployment, list_granted, with_settings

TEMPLATES = Path(__file__).resolve().parents[2] / "infra/helm/templates"
SETTING = "kueue_admission_check"


def allow(rights: set[tuple[str, str, str]]) -> Reviewing:
    """Allow exactly some rights: group, resource with subresource, verb."""

    def allows(asked: dict[str, str]) -> bool:
        assert "/" not in asked["resource"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        return (asked["group"], resource, asked["verb"]) in rights

    return Reviewing(allows)


def find(allowed: set[tuple[str, str, str]], *, on: bool = True, token_file: str = "") -> Finding:
    """Return what is found of the role."""
    deployment = a_deployment()
    there = ClusterSettings(endpoint=NOWHERE, token_file=token_file)
    deployment = with_settings(deployment, clusters={CLUSTER: there}, kueue_admission_check=on)
    deployment.apis[CLUSTER] = allow(allowed)
    (found,) = [each for each in check_cluster(deployment, CLUSTER) if each.check.endswith("c kueue")]
    return found


def test_the_role_is_not_needed_while_its_setting_is_off() -> None:
    found = find(set(), on=False)

    assert (found.result, found.text) == (Result.SKIPPED, f"not needed: the setting {SETTING} is off")


def test_with_all_rights_of_the_role_it_is_fine() -> None:
    found = find(set(KUEUE_RIGHTS))

    assert found.result is Result.OK
    assert f"has all {len(KUEUE_RIGHTS)} permissions that the setting {SETTING} needs" in found.text


@pytest.mark.parametrize(("token_file", "result"), [("", Result.WARN), ("token", Result.BAD)])
@pytest.mark.parametrize("right", sorted(KUEUE_RIGHTS))
def test_each_missing_right_is_named_with_the_command_that_applies_the_role(
    right: tuple[str, str, str], token_file: str, result: Result
) -> None:
    found = find(set(KUEUE_RIGHTS) - {right}, token_file=token_file)

    _, resource, verb = right
    message = f"the setting {SETTING} is on, but this identity does not have the permissions: {verb} {resource}"
    assert (found.result, found.text) == (result, message)
    assert found.mend == (
        "helm upgrade tpu-provisioner-exporter infra/helm --namespace default --reuse-values --set kueue=true"
    )


def test_the_rights_are_those_of_the_role() -> None:
    assert list_granted(TEMPLATES / "kueue-rights.yaml") == set(KUEUE_RIGHTS)
