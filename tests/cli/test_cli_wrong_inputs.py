"""Wrong arguments, variables and files: one clear error, exit code 2, and no library is quoted."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import CLUSTER
from tests.cli.cli_world import NOWHERE, run, write

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
CLUSTERS = {"TPU_PROVISIONER_CLUSTERS": json.dumps({CLUSTER: {"endpoint": NOWHERE}})}
OFFLINE = {
    "TPU_PROVISIONER_CREDENTIALS": "anonymous",
    "TPU_PROVISIONER_GKE_ENDPOINT": NOWHERE,
    "TPU_PROVISIONER_LOGGING_ENDPOINT": NOWHERE,
}
LIBRARIES = re.compile(
    r"Traceback|msgspec|pydantic|Expected `|\bErrno\b|HTTPS?Connection|Max retries|yaml\.|while (parsing|scanning)"
    r"|JSON is malformed|truncated|Input should|Value error|codec can|could not determine|did not find|Expecting|"
    r"tomllib|TypeError|KeyError|ValueError|object at 0x|Line \d+, Column"
)
SAYS_VALID = re.compile(r"valid: .|did you mean ")

ARGUMENTS = [
    ("--cluster",),
    ("status", "-n", "Not A Name"),
    ("board", "-n", "Not A Name"),
    ("why", "a", "-n", "Not A Name"),
    ("why", "a", "b"),
    ("plan",),
    ("plan", ""),
    ("plan", "\0"),
    ("plan", "x" * 5000),
    ("plan", "-", "--zone", "us-east5"),
    ("why", "Not A Name"),
    ("why", "a/b", "-n", "c"),
    ("why", "a", "--since", "soon"),
    ("why", "a", "--since", "2999-01-01T00:00:00Z"),
    ("board", "--port", "65536"),
    ("explain", "nonsense"),
    ("explain", ""),
    ("replay", "--since", "1h", "--dead-letters"),
    ("--cluster", "nonsense", "status"),
    ("plan", "-", "--cluster", "c"),
]

TOLD = [
    (("plan", "/no/such/file"), "/no/such/file: cannot be read"),
    (("plan", str(EXAMPLES), "--cluster", "mine"), "(got 'mine'); valid: projects/PROJECT/locations/"),
    (("replay",), "replay: needs one source (got none); valid: --since or --dead-letters"),
    (("replay", "--since", "1h", "--dead-letters"), "(got both); valid: --since or --dead-letters"),
    (("replay", "--since", "yesterday"), "--since: is not a time (got 'yesterday')"),
    (("replay", "--since", "2020-01-01T00:00:00"), "--since: has no time zone"),
    (("replay", "--since", "2999-01-01T00:00:00Z"), "--since: is in the future"),
    (("replay", "--since", "999999d"), "--since: is before 1971 (got '999999d'); valid: "),
    (("usage", "--since", "0001-01-05T00:00:00Z"), "--since: is before 1971"),
    (("replay", "--dead-letters", "--function", "exporter"), "--function"),
    (("dead-letters", "discard"), "dead-letters discard: needs IDs, or --all alone"),
    (("dead-letters", "discard", "1", "--all"), "dead-letters discard: needs IDs, or --all alone"),
    (("usage", "--by=pod"), "--by: is not a group (got 'pod'); valid: namespace, workload, accelerator, tier"),
    (("usage", "--by=label:"), "--by: is not a group (got 'label:')"),
    (("usage", "--since=tomorrow"), "--since: is not a time (got 'tomorrow')"),
    (("status", "-o", "xml"), "'xml' is not one of 'table', 'wide', 'json', 'yaml'"),
    (("statsu",), "No such command 'statsu'. Did you mean 'status'?"),
    (("why",), "Missing argument 'WORKLOAD'"),
    (("replay", "--snce=x"), "No such option: --snce"),
    (("status", "-o"), "Option '-o' requires an argument"),
    (("doctor", "now"), "Got unexpected extra argument(s) (now)"),
]
"""What is wrong, and what of the message is the command's own."""
ROWS = [*((each, "") for each in ARGUMENTS), *TOLD]


def name_row(arguments: tuple[str, ...]) -> str:
    return " ".join(arguments).replace(str(EXAMPLES), "examples")[:60].replace("\0", "NUL")


def check(code: int, message: str) -> None:
    assert code == 2, message
    if re.search("^Error: ", message, re.MULTILINE):  # click's
        return
    assert message.startswith("error: ") or "\nerror: " in message, message
    assert LIBRARIES.search(message) is None, message
    assert SAYS_VALID.search(message), message


@pytest.mark.parametrize(("arguments", "message"), ROWS, ids=[name_row(each) for each, _ in ROWS])
def test_a_wrong_argument_says_what_is_valid(arguments: tuple[str, ...], message: str) -> None:
    without = arguments[0] == "plan"
    result = run(*arguments, environ={} if without else CLUSTERS, given="")

    check(result.exit_code, result.stderr)
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("group", [(), ("dead-letters",)], ids=str)
def test_a_group_without_a_command_shows_its_help(group: tuple[str, ...]) -> None:
    result = run(*group)

    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: ")
    assert "Commands:" in result.stderr


def test_what_does_not_answer_is_told_without_a_library() -> None:
    result = run("why", "a", environ=CLUSTERS | OFFLINE)

    assert result.exit_code == 3
    assert f"{NOWHERE.removeprefix('http://')} does not answer (Connection refused)" in result.stderr
    assert LIBRARIES.search(result.stderr) is None, result.stderr


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("explain stockout >/dev/full", 1, "error: standard output: cannot be written: No space left on device"),
        ("plan - <&-", 2, "error: -: contains no workload"),
        ("plan odd.yaml 2>&1", 0, "ConfigMap m\\xfcll"),
    ],
)
def test_an_odd_input_or_output_is_no_traceback(tmp_path: Path, line: str, code: int, told: str) -> None:
    others = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: müll}\n---\n"
    write(tmp_path / "odd.yaml", others + (EXAMPLES / "first-slice.yaml").read_text())
    environ = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    command = ["/bin/sh", "-c", f"{sys.executable} -m cli {line}"]

    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)

    assert (done.returncode, told in done.stdout + done.stderr) == (code, True), done
    assert "Traceback" not in done.stderr
