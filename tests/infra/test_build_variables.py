"""A wrong file of Terraform's variables is refused with its name, its fault and what is valid."""

import re
from pathlib import Path
from typing import Any

import pytest

from infra.build.render_variables import _INPUTS, ROOT, _flatten, render_variables
from tests.infra.build_scripts import BESIDE_A_CLUSTER, BUILD, DEPLOYMENT, OLD_COMMAND_LINE, by_name
from tests.program_runs import run_python


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is not a JSON object of variables; valid: for example {"),
        ('{"a": 1,}', "is not JSON (Expecting"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_file_of_variables_is_refused_by_name(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "v.json"
    if text is not None:
        path.write_text(text)
    program = ROOT / "infra/build/render_variables.py"
    done = run_python(program, "--not-set", env={"TERRAFORM_VARIABLES": str(path)})

    assert done.returncode == 1
    assert f"error: TERRAFORM_VARIABLES: {path}: {message}" in done.stderr


def inputs(given: dict[str, str]) -> dict[str, str]:
    return by_name(given) | DEPLOYMENT


@pytest.mark.parametrize(
    ("given", "more", "message"),
    [
        ({}, {"settings": {"mode": "report-only"}}, 'settings.mode: .* input MODE, which is or means "active"'),
        ({"_LIMIT_CHIPS": "8"}, {"settings": {"limit_chips": 7}}, r"\(got 7\); valid: set LIMIT_CHIPS"),
        ({}, {"create_tensorboard": True}, "the input CREATE_TENSORBOARD, which is or means false"),
        ({}, {"zone": "x", "region": "y"}, r"region: .* the input REGION, .*\n.*zone: .* the input ZONE"),
        ({"_NETWORK_PROJECT": "host"}, {"create_nat": True}, "create_nat: contradicts the input NETWORK_PROJECT"),
        (BESIDE_A_CLUSTER, {"clusters": {"main": {}}}, "clusters.main: contradicts the input CLUSTER_NAME"),
    ],
)
def test_a_file_that_contradicts_an_input_or_its_default_is_refused(
    given: dict[str, str], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        render_variables(inputs(OLD_COMMAND_LINE | given), more)


def test_a_file_may_repeat_what_an_input_says() -> None:
    asked = inputs(OLD_COMMAND_LINE | {"_LIMIT_CHIPS": "8"})
    more = {"zone": "us-east5-b", "num_tpu_pools": "1", "settings": {"limit_chips": 8, "mode": "active"}}
    assert render_variables(asked, more) == render_variables(asked, {})


def test_each_variable_that_an_input_sets_is_told_with_an_input() -> None:
    names = re.search(r"^INPUTS=\((.*?)\)", (BUILD / "inputs.sh").read_text(), re.DOTALL | re.MULTILINE)
    assert names
    for given in (OLD_COMMAND_LINE | {"_NETWORK_PROJECT": "host", "_PRIVATE_NODES": "true"}, BESIDE_A_CLUSTER):
        for name in _flatten(render_variables(inputs(given), {})):
            assert _INPUTS.get(name, name.upper()) in {"PROJECT_ID", *names[1].split()}, name
