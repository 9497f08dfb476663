"""A file of faults is read before a stack starts, and an error says what is valid."""

from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from demo.loop.__main__ import app as loop
from demo.stack.__main__ import app as stack
from demo.stack.fault_files import find_faults


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "faults.yaml: cannot be read (No such file or directory); valid: a readable YAML file"),
        ("faults: [", "faults.yaml, line 2: is not YAML; valid: a YAML file"),
        ("fault: []", "valid keys: faults, capacity, policies, reservations, timings"),
        ("faults: [{switch: nonsense}]", "unknown switch 'nonsense'; valid switches: audit_entries, "),
        ("faults: [{switch: outcome, kind: x}]", "switch 'outcome': kind cannot be 'x'; valid: "),
        (
            "faults: [{switch: outcome, kind: quota, nth: soon}]",
            "nth must be a whole number, not a text; valid fields",
        ),
        (
            "faults: [{switch: outcome, kind: quota, tmes: 1}]",
            "it has no field 'tmes'; valid fields: cluster, count",
        ),
        ("timings: {nonsense: 1}", "timings has no field 'nonsense'; valid keys: faults"),
        ("timings: {pending: 1}", "timings.pending must be a list, not a whole number; valid keys: faults"),
        ("policies: [{}]", "policies[0] needs the field 'name'; valid keys: faults"),
        ("capacity: 3", "capacity: must be a list (got 3); valid: a list of rules"),
        ("\x80", "faults.yaml: is not YAML, or not UTF-8 text; valid: a YAML file"),
    ],
)
@pytest.mark.parametrize(("app", "arguments"), [(loop, []), (stack, ["up"]), (stack, ["run"])])
def test_a_wrong_file_ends_the_command_before_anything_starts(
    tmp_path: Path, text: str | None, message: str, app: Typer, arguments: list[str]
) -> None:
    path = tmp_path / "faults.yaml"
    if text is not None:
        path.write_bytes(text.encode("latin-1") + b"\n")

    result = CliRunner().invoke(app, [*arguments, f"--faults={path}"])

    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert not any(word in result.stderr for word in ("Errno", "codec", "Expected `", "Invalid enum", " - at `"))


def test_a_right_file_is_named_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faults.yaml").write_text("faults: []\n")

    assert find_faults("faults.yaml") == str(tmp_path / "faults.yaml")
    assert find_faults("") == ""
