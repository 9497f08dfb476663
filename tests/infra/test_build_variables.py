"""A wrong file of Terraform's variables is refused with its name, its fault and what is valid."""

from pathlib import Path

import pytest

from infra.build.render_variables import ROOT
from tests.program_runs import run_python

MISTAKES = [
    (
        "a file of `_TERRAFORM_VARIABLES` that is no JSON object",
        "refused in the step `preflight`, with the fault",
        "enabled APIs",
        "succeeds with a JSON object",
    )
]


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
