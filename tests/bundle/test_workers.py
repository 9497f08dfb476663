"""The functions are imported once and forked: each worker opens its own clients, before events."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from standins.kit.addresses import draw_ports
from standins.kit.processes import wait_until
from tests.builders import CLUSTER
from tests.contract.test_google_account import FakeGoogle
from tests.program_runs import run_python

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = ROOT / "functions"
SERVER = (str(Path(sys.executable).with_name("functions-framework")), "--source=main.py", "--target=provision")
FORK = """
import gc, json, os, socket, requests
import main
from shared import deliver as function

def look():
    alive = gc.get_objects()
    sessions = {id(each) for each in alive if isinstance(each, requests.Session)}
    sockets = [each for each in alive if isinstance(each, socket.socket) and each.fileno() != -1]
    return {"ports": bool(function._KEPT), "sessions": len(sessions), "sockets": len(sockets)}

before = look()
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, json.dumps(look()).encode())
    os._exit(0)
os.wait()
print(json.dumps({"before": before, "child": json.loads(os.read(reading, 9999)), "after": look()}))
"""


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    with FakeGoogle() as fake:
        yield fake


def environment(google: FakeGoogle) -> dict[str, str]:
    address = google.url.removeprefix("http://")
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
        "PYTHONPATH": os.pathsep.join((str(FUNCTIONS), str(ROOT))),
        "FUNCTION_TARGET": "provision",
        "GCE_METADATA_HOST": address,
        "GCE_METADATA_IP": address,
        "TPU_PROVISIONER_CLUSTERS": json.dumps({CLUSTER: {"endpoint": google.url}}),
        "TPU_PROVISIONER_GKE_ENDPOINT": google.url,
    }


def test_nothing_is_open_before_the_fork_and_a_worker_has_its_own(google: FakeGoogle) -> None:
    done = run_python("-c", FORK, env=environment(google), succeeds=True)
    found = json.loads(done.stdout.splitlines()[-1])

    nothing = {"ports": False, "sessions": 0, "sockets": 0}
    assert (found["before"], found["after"]) == (nothing, nothing)
    assert found["child"]["ports"]
    assert found["child"]["sessions"] >= 2


def test_the_start_of_an_instance_gets_the_token_and_not_its_first_event(google: FakeGoogle) -> None:
    with subprocess.Popen(
        [*SERVER, "--port", str(draw_ports(1)[0])],
        env=environment(google),
        cwd=FUNCTIONS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            wait_until(lambda: google.tokens or process.poll() is not None, what="a token")
            assert process.poll() is None
        finally:
            process.terminate()

    assert len(google.tokens) == 1
    assert google.identities == {}


def test_a_start_without_a_token_is_a_warning_and_not_the_end(google: FakeGoogle) -> None:
    google.status = 404
    done = run_python("-c", FORK, env=environment(google), succeeds=True)
    (output,) = [line for line in done.stdout.splitlines() if "could not be opened" in line]
    assert json.loads(output)["severity"] == "WARNING"
