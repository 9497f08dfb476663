"""Wrong options and files of the demo and the stand-ins: one clear error, code 2, no start."""

import re
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from demo.board.__main__ import app as board
from demo.loop.__main__ import app as loop
from demo.stack.__main__ import app as stack
from standins.cluster.__main__ import application as cluster
from standins.controlplane.cli import app as controlplane
from standins.fakegke.cli import app as fakegke
from standins.kubelet.__main__ import app as kubelet
from standins.logging.__main__ import app as logs
from standins.pubsub.cli import app as pubsub

LIBRARIES = re.compile(r"Traceback|Value error|Input should|\bErrno\b|codec|while (parsing|scanning)|Usage:")
SERVE_GKE = "serve --project=p --cluster=c"
SERVE_LOGS = "serve --folder=FOLDER --project=p"
UNWRITABLE = "BYTES/ports.json"
NOT_WRITABLE = f"{UNWRITABLE} cannot be written (Not a directory); valid: a file that this user may write"
SPEEDS = "a number from 0.1 to 1000"
JOBSET = """{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: train}, spec: {replicatedJobs: [{
  name: slice, template: {spec: {template: {spec: {containers: [{name: a, image: b}]}}}}}]}}
"""
FILES = {
    "BYTES": b"\xff\x00",
    "FAULTS": b"faults: [{switch: nonsense}]\n",
    "CONFIG": b"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n",
    "SERVICE": f"{JOBSET}---\nkind: Service\n".encode(),
    "EMPTY": b"{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: train}}\n",
    "TWICE": f"{JOBSET}---\n{JOBSET}".encode(),
}
ROWS: list[tuple[Typer, str, str]] = [
    (loop, "--speed=abc", f"--speed: is not valid (got 'abc'); valid: {SPEEDS}"),
    (loop, "--speed=0", f"--speed: is not valid (got '0'); valid: {SPEEDS}"),
    (loop, "--speed=nan", f"--speed: is not valid (got 'nan'); valid: {SPEEDS}"),
    (loop, "--speed=", f"--speed: is not valid (got ''); valid: {SPEEDS}"),
    (loop, "--speed", "--speed: needs a value; valid: --speed=VALUE"),
    (loop, "--timeout=soon", "--timeout: is not valid (got 'soon'); valid: a number, 0 or more"),
    (loop, "--timeout=-1", "--timeout: is not valid (got '-1'); valid: a number, 0 or more"),
    (loop, "--seed=x", "--seed: is not valid (got 'x'); valid: a whole number"),
    (loop, "--idle-seconds-max=1.5", "--idle-seconds-max: is not valid (got '1.5'); valid: a whole number, 0 or"),
    (loop, "--cluster=kind", "--cluster: is not valid (got 'kind'); valid: embedded, real"),
    (loop, "--sped=3", "--sped: is not an option; did you mean --speed?"),
    (loop, "--expect-all=yes", "--expect-all: takes no value; valid: --expect-all"),
    (loop, "--report=out.png", "report out.png: unknown ending '.png'; valid: .json, .html, .svg"),
    (loop, "--report=no/out.svg", "report no/out.svg: the folder no does not exist; valid: another path"),
    (loop, "missing.yaml", "missing.yaml: the file or folder does not exist; valid: YAML files, folders or"),
    (loop, "no-*.yaml", "no-*.yaml: no file matches this pattern; valid: YAML files, folders or patterns"),
    (loop, "BYTES", "is not UTF-8 text (see byte 0); valid: YAML files, folders or patterns"),
    (loop, "FOLDER", "this folder contains no manifest; valid: .yaml, .yml, .json files"),
    (loop, "", "no manifest is given; valid: YAML files, folders or patterns"),
    (stack, "up --speed=abc", f"--speed: is not valid (got 'abc'); valid: {SPEEDS}"),
    (stack, "up --cluster=kind", "--cluster: is not valid (got 'kind'); valid: embedded, real"),
    (stack, "up --run-seconds=-1", "--run-seconds: is not valid (got '-1'); valid: a number, 0 or more"),
    (stack, "up --home=BYTES", "is a file; valid: The folder for ports, logs, kubeconfig and state"),
    (stack, "up now", "'now' is more than the command takes; valid: root up [OPTIONS]"),
    (stack, "upp", "'upp' is not a command; did you mean up?"),
    (stack, "up --faults=BYTES", "BYTES: is not YAML, or not UTF-8 text; valid: a YAML file"),
    (stack, "up --faults=missing.yaml", "missing.yaml: cannot be read (No such file or directory); valid: a"),
    (stack, "up --faults=FAULTS", "unknown switch 'nonsense'; valid switches: audit_entries, "),
    (loop, "--faults=FAULTS", "unknown switch 'nonsense'; valid switches: audit_entries, "),
    (loop, "CONFIG", "CONFIG: contains no JobSet (found: ConfigMap); valid: kind JobSet of "),
    (loop, "SERVICE", "SERVICE, document 2: apiVersion: is missing"),
    (loop, "EMPTY", "spec.replicatedJobs: is missing or empty"),
    (loop, "TWICE", "JobSet default/train is also in"),
    (board, "--port=http", "--port: is not valid (got 'http'); valid: a whole number from 0 to 65535"),
    (board, "--port=70000", "--port: is not valid (got '70000'); valid: a whole number from 0 to 65535"),
    # The stand-ins.
    (fakegke, "serve --speed=x", "--speed: is not valid (got 'x'); valid: a number, 0.001 or more"),
    (
        fakegke,
        "serve --rest-port=70000",
        "--rest-port: is not valid (got '70000'); valid: a whole number from 0 to",
    ),
    (fakegke, "serve --project=p --cluster=c", "--location: is missing; valid: Region or zone of the clusters"),
    (
        fakegke,
        f"{SERVE_GKE} --location=Mars",
        "location: 'Mars' is no region or zone; valid: us-east5, us-east5-b",
    ),
    (fakegke, f"{SERVE_GKE} --location=us-east5-b-c", "location: 'us-east5-b-c' is no region or zone; valid: "),
    (
        fakegke,
        f"{SERVE_GKE} --location=us-east5 --zone=us-east4-a",
        "zone: 'us-east4-a' is not a zone of 'us-east5'",
    ),
    (fakegke, f"{SERVE_GKE} --location=us-east5 --ports-file={UNWRITABLE}", f"--ports-file: {NOT_WRITABLE}"),
    (fakegke, "serve --sped=3", "--sped: is not an option; did you mean --speed?"),
    (fakegke, "srve", "'srve' is not a command; did you mean serve?"),
    (pubsub, "serve --grpc-port=x", "--grpc-port: is not valid (got 'x'); valid: a whole number from 0 to 65535"),
    (pubsub, f"serve --ports-file={UNWRITABLE}", f"--ports-file: {NOT_WRITABLE}"),
    (logs, f"{SERVE_LOGS} --rest-port=x", "--rest-port: is not valid (got 'x'); valid: a whole number"),
    (logs, f"{SERVE_LOGS} --ports-file={UNWRITABLE}", f"--ports-file: {NOT_WRITABLE}"),
    (cluster, "serve --port=70000", "--port: is not valid (got '70000'); valid: a whole number from 0 to 65535"),
    (cluster, "serve --speed=0", "--speed: is not valid (got '0'); valid: a number, 0.001 or more"),
    (cluster, "serve --history=-1", "--history: is not valid (got '-1'); valid: a whole number, 0 or more"),
    (cluster, f"serve --ports-file={UNWRITABLE}", f"--ports-file: {NOT_WRITABLE}"),
    (
        cluster,
        "serve --ports-file=FOLDER",
        "--ports-file: FOLDER cannot be written (it is a folder); valid: a file",
    ),
    (cluster, f"serve --kubeconfig-file={UNWRITABLE}", f"--kubeconfig-file: {NOT_WRITABLE}"),
    (controlplane, "build --nice=77", "--nice: is not valid (got '77'); valid: a whole number from 0 to 19"),
    (controlplane, "build --with=nope", "controller: nope is not valid; valid: "),
    (controlplane, f"serve --ports-file={UNWRITABLE}", f"--ports-file: {NOT_WRITABLE}"),
    (kubelet, "--kubeconfig=BYTES", "BYTES: cannot be read as a kubeconfig: it is not YAML; valid: a kubeconfig"),
    (kubelet, "", "--kubeconfig: is missing; valid: How to reach the API server"),
]


@pytest.mark.parametrize(("app", "line", "message"), ROWS, ids=lambda each: each if isinstance(each, str) else "")
def test_a_wrong_input_is_told_with_what_is_valid(
    app: Typer, line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FOLDER").mkdir()
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)

    result = CliRunner().invoke(app, line.split() or [""])

    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert LIBRARIES.search(result.stderr) is None, result.stderr
