"""The Cloud Build files, by gcloud and by rules of ours; `make quick` holds them to the schema."""

import re
from pathlib import Path

import pytest

from tests.infra.bench import BUILD, DESTROY, PROVISION, PUBLIC, ROOT, load
from tests.infra.real_gcloud import find_sdk
from tests.infra.terraform_text import TERRAFORM, read_configuration
from tests.program_runs import run_program

FILES = pytest.mark.parametrize("path", [PROVISION, DESTROY], ids=["provision", "destroy"])
EXPORTER = ("exporter/requirements.txt", "exporter/Dockerfile")
NAMED = ("functions/main.py", "requirements.txt", ".dockerignore", *EXPORTER)
READ = (
    *("infra/build/**/*.sh", "infra/build/**/*.py", "infra/build/**/go.*", "infra/helm/**/*.yaml"),
    *("shared/**/*.py", "shared/**/*.json", "exporter/**/*.py"),
    *("infra/terraform/**/*.tf", "infra/terraform/**/.terraform.lock.hcl"),
)
"""What the build reads of the source, beside those files."""
STEPS_MAX = {PROVISION: 6, DESTROY: 4}


@FILES
def test_every_step_has_an_exact_image_and_runs_one_script_and_no_shell_text(path: Path) -> None:
    steps = load(path)["steps"]
    assert len(steps) <= STEPS_MAX[path]
    for step in steps:
        assert re.fullmatch(r"[\w.\-/]+:v?\d+\.\d+\.\d+(-\w+)*(@sha256:[0-9a-f]{64})?", step["name"]), step["name"]
        assert not step.keys() - {"id", "name", "entrypoint", "args"}, step["id"]
        assert "$" not in str(step), f"{step['id']}: a substitution in a command"
        if step["entrypoint"] == "bash":
            assert len(step["args"]) == 1
            assert (ROOT / step["args"][0]).is_file()
        else:  # a copy of a program out of its image
            assert step["id"].startswith("program-")
            assert step["entrypoint"] == "install"


@FILES
def test_substitutions_reach_the_scripts_as_variables_and_all_of_them_are_known_there(path: Path) -> None:
    content = load(path)
    listed = re.findall(r"^(?:PUBLIC|OWN)=\(([^)]*)\)", (BUILD / "inputs.sh").read_text(), re.MULTILINE)
    known = {f"_{name}" for names in listed for name in names.split()}

    assert content["options"]["automapSubstitutions"] is True
    assert content["options"]["substitutionOption"] == "ALLOW_LOOSE", "no step names them"
    assert content["options"]["logging"] == "LEGACY", "gcloud shows this log while a build runs"
    assert content["serviceAccount"].endswith("/${_NAME}-deployer@$PROJECT_ID.iam.gserviceaccount.com")
    assert set(PUBLIC) <= content["substitutions"].keys() <= known
    assert all(isinstance(value, str) for value in content["substitutions"].values())
    same = {name: load(PROVISION)["substitutions"][name] for name in (*PUBLIC, "_NAME")}
    assert same.items() <= content["substitutions"].items(), "both builds have the same defaults"


@pytest.mark.tool
def test_what_is_uploaded_is_what_the_build_reads() -> None:
    listing = ("meta", "list-files-for-upload", ROOT)
    files = set(run_program(find_sdk() / "bin/gcloud", *listing, succeeds=True).stdout.split())
    needed = {str(path.relative_to(ROOT)) for pattern in READ for path in ROOT.glob(pattern)}
    missing = {*needed, *NAMED} - files

    assert not missing
    assert len(needed) > 100
    tops = {name.split("/")[0] for name in files}
    assert not tops & {".git", ".venv", "tests", "build", ".local", "docs"}


def test_the_walk_knows_every_substitution_and_every_step() -> None:
    walk = (ROOT / "docs/deploy.md").read_text()
    declared = load(DESTROY)["substitutions"].keys() | load(PROVISION)["substitutions"].keys()

    assert set(re.findall(r"`(_[A-Z_]+)`", walk)) == declared
    steps = {step["id"] for path in (PROVISION, DESTROY) for step in load(path)["steps"]}
    assert {each for each in steps if not each.startswith("program-")} <= set(re.findall(r"`([a-z-]+)`", walk))


def test_the_example_names_variables_that_exist() -> None:
    root = read_configuration(TERRAFORM)
    text = (ROOT / "infra/deployment.example.tfvars").read_text()
    names = set(re.findall(r"^(?:# )?([a-z_]+) +=", text, re.MULTILINE))

    assert names <= {each.name for each in root.of("variable")}
    assert len({each.name for each in root.of("variable")}) <= 20
    inside = set(re.findall(r"^  (?:# )?([a-z_]+) +=", text, re.MULTILINE))
    assert inside <= set(root.locals["environment_names"])


def test_the_release_has_only_the_rights_it_needs_and_fixed_actions() -> None:
    workflow = load(ROOT / ".github/workflows/release.yml")
    (job,) = workflow["jobs"].values()
    used = [step["uses"] for step in job["steps"] if "uses" in step]

    assert workflow["permissions"] == {}
    assert job["permissions"] == {"contents": "write", "packages": "write", "id-token": "write"}
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", each) for each in used)
    # A name in the text of a command could be a command itself.
    assert [step["run"] for step in job["steps"] if "${{" in step.get("run", "")] == []
