"""What the builds' account may grant: `LIMIT_GRANTS` of deployer.sh, and what Terraform grants."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from infra.build.limit_grants import BUILDS, CUSTOM, OF_VARIABLES, ROLE, TENSORBOARD, write_condition
from tests.infra.build_scripts import ROOT, Bench
from tests.infra.terraform_cli import MODULES, TERRAFORM
from tests.infra.terraform_text import Block, Configuration, read_configuration

HOME, CLUSTERS = "home-project", "clusters-project"
MEMBER = f"serviceAccount:tpu-provisioner-deployer@{HOME}.iam.gserviceaccount.com"
ENVIRONMENT = {"PROJECT_ID": HOME}
ACROSS = {"PROJECT_ID": HOME, "CLUSTER_PROJECT": CLUSTERS, "CREATE_ENVIRONMENT": "false"}
LIMIT = {"LIMIT_GRANTS": "true"}
BUILDS_OWN = {"roles/logging.logWriter", "roles/storage.objectViewer"}
NODES = {"roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader"}
OF_ENVIRONMENT = BUILDS_OWN | NODES | {"roles/aiplatform.user"}


def functions_roles(project: str, time: str = "20261124050607") -> set[str]:
    names = ("node_pools", "sizes_provision", "sizes_sweep", "creations")
    return {f"projects/{project}/roles/tpu_provisioner_{each}_{time}" for each in names}


def a_role(project: str, time: str = "20261124050607", home: str = HOME, name: str = "tpu_provisioner") -> Any:
    """Return the one role that tells the time, as gcloud lists it."""
    return {
        "name": f"projects/{project}/roles/{name}_node_pools_{time}",
        "description": f"What the functions of {name.replace('_', '-')} in project {home} need: node pools.",
    }


@pytest.fixture
def bench(bench: Bench) -> Bench:
    """A cloud in which the first provisioning has made the functions' roles."""
    bench.change(custom_roles={project: [a_role(project)] for project in (HOME, CLUSTERS)})
    return bench


def deploy(bench: Bench, inputs: dict[str, str], **more: str) -> str:
    return bench.run("deployer.sh", inputs | more).stdout


def refuse(bench: Bench, inputs: dict[str, str], **more: str) -> str:
    """Run the script, which must refuse before it grants anything; return what it said."""
    before = bench.state
    done = bench.run("deployer.sh", inputs | more, code=1)
    but: dict[str, Any] = {"policies": {}, "apis": []}
    assert bench.state | but == before | but
    assert not any(each["bindings"] for each in bench.world["policies"].values())
    return done.stderr


def conditions(bench: Bench, project: str = HOME) -> list[dict[str, str] | None]:
    """Return the condition of each grant of the one role to the account."""
    bindings = bench.world["policies"][project]["bindings"]
    return [each.get("condition") for each in bindings if each["role"] == ROLE and each["members"] == [MEMBER]]


def grantable(bench: Bench, project: str = HOME) -> set[str]:
    """Return the roles of the only grant's condition."""
    (condition,) = conditions(bench, project)
    assert condition is not None, "the account may grant any role"
    assert condition["title"] == "only-roles-of-tpu-provisioner"
    return read_roles(condition["expression"])


def read_roles(expression: str) -> set[str]:
    """Return the roles of an expression, whose form must be IAM's."""
    one = r"api\.getAttribute\('iam\.googleapis\.com/modifiedGrantsByRole', \[\]\)\.hasOnly\(\[([^]]*)\]\)"
    assert re.fullmatch(rf"{one}(?: \|\| {one})*", expression)
    lists = [found[1].split(", ") for found in re.finditer(one, expression)]
    assert all(len(each) <= 10 for each in lists)
    return {role.strip("'") for each in lists for role in each}


def test_only_the_roles_that_terraform_grants_can_be_granted(bench: Bench) -> None:
    deploy(bench, ENVIRONMENT)
    assert conditions(bench) == [None]
    answer = deploy(bench, ENVIRONMENT | LIMIT)

    assert grantable(bench) == functions_roles(HOME) | OF_ENVIRONMENT
    assert f"{HOME}: the builds may grant and take away only these roles: " in answer


def test_each_project_has_a_condition_with_its_own_roles(bench: Bench) -> None:
    bench.change(custom_roles={CLUSTERS: [a_role(CLUSTERS)]})
    deploy(bench, ACROSS)
    deploy(bench, ACROSS | LIMIT)

    assert grantable(bench) == BUILDS_OWN
    assert grantable(bench, CLUSTERS) == functions_roles(CLUSTERS)


def test_a_project_of_two_clusters_keeps_the_roles_for_its_own_one(bench: Bench) -> None:
    deploy(bench, ACROSS | LIMIT)

    assert grantable(bench) == BUILDS_OWN | functions_roles(HOME)


def test_roles_of_other_deployments_are_left_out(bench: Bench) -> None:
    others = [a_role(HOME, "2", home="other-project"), a_role(HOME, "3", name="tpu_provisioner_two")]
    bench.change(custom_roles={HOME: [*others, a_role(HOME, "4")]})
    deploy(bench, ENVIRONMENT | LIMIT)

    assert grantable(bench) == functions_roles(HOME, "4") | OF_ENVIRONMENT


def test_what_was_found_stays_without_the_input_and_the_script_says_so(bench: Bench) -> None:
    assert "so the builds may grant any role" in deploy(bench, ENVIRONMENT)
    deploy(bench, ENVIRONMENT | LIMIT)
    limited = bench.state

    answer = deploy(bench, ENVIRONMENT)
    assert "the builds may grant only the roles of a condition, and this stays so" in answer
    assert "LIMIT_GRANTS=false removes it" in answer
    deploy(bench, ENVIRONMENT | LIMIT)
    assert in_order(bench.state) == in_order(limited)
    deploy(bench, ENVIRONMENT, LIMIT_GRANTS="false")
    assert conditions(bench) == [None]
    changed = [call for call in bench.calls if f"--role={ROLE}" in call]
    assert [call[2].partition("-")[0] for call in changed] == ["add", "add", "remove", "add", "remove"]


def test_a_grant_with_and_one_without_a_condition_are_named_and_then_made_one(bench: Bench) -> None:
    by_hand = {"title": "by-hand", "expression": "true", "description": "of a person"}
    bindings = [{"role": ROLE, "members": [MEMBER]}, {"role": ROLE, "members": [MEMBER], "condition": by_hand}]
    bench.change(policies={HOME: {"bindings": bindings}})

    assert "with a condition and also without one, so the builds may grant any role" in deploy(bench, ENVIRONMENT)
    assert conditions(bench) == [None, by_hand]
    deploy(bench, ENVIRONMENT | LIMIT)
    assert "true" not in grantable(bench)


def test_a_new_deployment_needs_its_new_roles_in_the_condition(bench: Bench) -> None:
    deploy(bench, ENVIRONMENT | LIMIT)
    bench.change(custom_roles={HOME: [a_role(HOME, "20270101000000")]})
    deploy(bench, ENVIRONMENT | LIMIT)

    assert grantable(bench) == functions_roles(HOME, "20270101000000") | OF_ENVIRONMENT


@pytest.mark.parametrize("limit", ["true", "false"])
def test_a_run_that_ends_between_two_changes_leaves_the_role_and_is_mended_by_the_next_one(
    bench: Bench, limit: str
) -> None:
    deploy(bench, ENVIRONMENT, LIMIT_GRANTS="true" if limit == "false" else "false")
    before = bench.state
    bench.change(calls=[])
    deploy(bench, ENVIRONMENT, LIMIT_GRANTS=limit)
    wanted, calls = bench.state, bench.calls
    changes = [number for number, call in enumerate(calls, 1) if f"--role={ROLE}" in call]
    assert len(changes) == 2

    for number in changes:
        bench.change(**before, calls=[], fail_at=number)
        # A pause that no program knows: so the script ends at this call, and does not try it again.
        given = {"LIMIT_GRANTS": limit, "RETRY_PAUSE_SECONDS": "none"}
        bench.run("deployer.sh", ENVIRONMENT | given, code=1)
        assert len(conditions(bench)) == 1 + changes.index(number)
        bench.change(calls=[], fail_at=0)
        deploy(bench, ENVIRONMENT, LIMIT_GRANTS=limit)
        assert in_order(bench.state) == in_order(wanted)


def in_order(state: dict[str, Any]) -> dict[str, Any]:
    """Return the world with the bindings in an order of their own, because theirs means nothing."""
    policies = {project: sorted(map(json.dumps, each["bindings"])) for project, each in state["policies"].items()}
    return state | {"policies": policies}


def test_a_condition_before_the_first_provisioning_is_refused(tmp_path: Path) -> None:
    answer = refuse(Bench.make(tmp_path), ENVIRONMENT | LIMIT)

    assert f"LIMIT_GRANTS: {HOME} has no custom role of tpu-provisioner yet" in answer
    assert "valid: true after the first provisioning" in answer


def test_roles_of_the_variables_file_are_in_the_condition(bench: Bench) -> None:
    path = bench.folder / "variables.json"
    named = {"TERRAFORM_VARIABLES": os.path.relpath(path, ROOT)}
    for wrong in ("roles/x", ["a'b"], [3], {"a": "b"}):
        path.write_text(json.dumps({"gke_sa_roles": wrong}))
        assert "gke_sa_roles: is not a list of roles" in refuse(bench, ENVIRONMENT | LIMIT | named)
    path.write_text("[]")
    assert f"{path.name}: is not a JSON object of variables" in refuse(bench, ENVIRONMENT | LIMIT | named)
    path.unlink()
    assert "error: TERRAFORM_VARIABLES: " in refuse(bench, ENVIRONMENT | LIMIT | named)

    own = [f"roles/example.role{number}" for number in range(9)]
    path.write_text(
        json.dumps({"gke_sa_roles": [*own, "container.nodes"], "tpu_sa_roles": ["projects/p/roles/x"]})
    )
    deploy(bench, ENVIRONMENT | LIMIT | named)
    more = {*own, "roles/container.nodes", "projects/p/roles/x"}
    assert grantable(bench) == functions_roles(HOME) | (OF_ENVIRONMENT - NODES) | more


def test_a_value_that_is_neither_true_nor_false_is_refused(bench: Bench) -> None:
    assert "LIMIT_GRANTS: is not valid (got: yes)" in refuse(bench, ENVIRONMENT, LIMIT_GRANTS="yes")


def test_a_condition_has_at_most_thirteen_lists_of_ten_roles() -> None:
    roles = [f"roles/a.b{number}" for number in range(130)]
    assert read_roles(write_condition("x", roles)["expression"]) == set(roles)
    with pytest.raises(ValueError, match=r"can have 130 roles \(got: 131\)"):
        write_condition("x", [*roles, "roles/one.more"])


def test_the_condition_has_every_role_that_terraform_grants_on_a_project_and_no_other_one() -> None:
    granted: dict[str, set[str]] = {"var.project_id": set(), "each": set()}
    for folder in MODULES:
        configuration = read_configuration(TERRAFORM / folder)
        for each in configuration.of("resource"):
            if each.type == "google_project_iam_member":
                project = str(each.body["project"]).strip("${}")
                granted[project.partition(".value")[0].partition(".key")[0]] |= list_granted(configuration, each)
            else:
                assert not re.match(r"google_(project|folder|organization)_iam_(?!custom_role)", each.type)

    of_variables = {role for roles in OF_VARIABLES.values() for role in roles}
    assert granted == {"var.project_id": {*BUILDS, TENSORBOARD} | of_variables, "each": set(CUSTOM)}


def list_granted(configuration: Configuration, grant: Block) -> set[str]:
    """Return the roles of a grant; of custom ones the part of the id after the name."""
    role = str(grant.body["role"])
    if role.startswith("roles/"):
        return {role}
    if found := re.match(r"\$\{google_project_iam_custom_role\.(\w+)\[", role):
        (made,) = (
            each for each in configuration.of("resource") if each.name == found[1] and "role_id" in each.body
        )
        parts = re.fullmatch(
            r'\$\{replace\(var\.name, "-", "_"\)\}_(.+)_\$\{terraform_data\.deployed_at\.output\}',
            made.body["role_id"],
        )
        assert parts, made.body["role_id"]
        assert " in project ${var.project_id} need" in made.body["description"]  # by which the script knows them
        per_function = configuration.locals["size_permissions"]
        return {parts[1].replace("${each.value.function}", each) for each in per_function}
    (source,) = re.findall(r"local\.(\w+_roles)", str(grant.body["for_each"]))
    (variable,) = re.findall(r"var\.(\w+)", str(configuration.locals[source]))
    (declared,) = (each for each in configuration.of("variable") if each.name == variable)
    assert tuple(declared.body["default"]) == OF_VARIABLES[variable]
    return set(OF_VARIABLES[variable])
