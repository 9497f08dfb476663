"""The staged folder, started as Google's buildpack starts it, without this repository.

The functions are imported once and forked: each worker opens its own clients.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3

from demo.functions import stage
from standins.kit.addresses import draw_ports, listens
from standins.kit.processes import PATIENCE_SECONDS, Child, Command, NotStarted, running
from tests.builders import CLUSTER
from tests.packaging.libraries import list_pinned, run_alone
from tests.program_runs import run_python

FRAMEWORK = str(Path(sys.executable).with_name("functions-framework"))
TICK = f"/tick?cluster={CLUSTER}"
ALONE = """
import pkgutil
from functions_framework import create_app
create_app("provision", "main.py", "http")
for module in pkgutil.walk_packages(["shared"], "shared."):
    print(__import__(module.name, fromlist=["_"]).__file__)
"""
OPEN = """
import gc, json, requests, socket
import main
from shared import deliver as function

alive = gc.get_objects()
sessions = [each for each in alive if isinstance(each, requests.Session)]
sockets = [each for each in alive if isinstance(each, socket.socket) and each.fileno() != -1]
print(json.dumps([len(function._KEPT), len(sessions), len(sockets)]))
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "source"
    stage(folder)
    return folder


def environment(url: str, **change: str) -> dict[str, str]:
    """As on Cloud Run: no PYTHONPATH, no home of ours, only what the platform and Terraform set."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "K_SERVICE": "tpu-provisioner-provision",
        "K_REVISION": "tpu-provisioner-provision-00001-abc",
        "TPU_PROVISIONER_CLUSTERS": json.dumps({CLUSTER: {"endpoint": url, "zone": "us-east5-b"}}),
        "TPU_PROVISIONER_GKE_ENDPOINT": url,
        "TPU_PROVISIONER_CREDENTIALS": "anonymous",
        **change,
    }


@contextmanager
def started(bundle: Path, target: str, environ: dict[str, str]) -> Iterator[tuple[str, Child]]:
    """Run a function while the block runs; yield its address and its process."""
    (port,) = draw_ports(1)
    options = (f"--target={target}", "--signature-type=http", "--host=127.0.0.1", f"--port={port}")
    own = {"FUNCTION_TARGET": target, "PORT": str(port)}
    command = Command(
        name=target, arguments=(FRAMEWORK, "--source=main.py", *options), folder=bundle, environment=environ | own
    )
    with running(command, bundle.parent, lambda: listens(port)) as child:
        yield f"http://127.0.0.1:{port}", child


def post(address: str, body: bytes = b"") -> urllib3.BaseHTTPResponse:
    headers = {"Connection": "close"}  # a kept connection would be waited for when the process stops
    return urllib3.request("POST", address, body=body, headers=headers, timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("target", ["provision", "collect"])
def test_each_function_of_the_bundle_starts_and_answers_messages_and_ticks(bundle: Path, target: str) -> None:
    """What they answer on a whole cloud is in tests/loop, whose stacks run the same bundle."""
    with started(bundle, target, environment("http://127.0.0.1:9")) as (url, child):
        answers = [post(url, body) for body in (b"", b"nonsense", b'{"message": {}}')]
        tick = post(url + TICK)
    records = [json.loads(line) for line in child.log.read_text().splitlines() if line.startswith("{")]

    assert [each.status for each in answers] == [200, 200, 200], "a 400 of the framework would come again"
    assert tick.status == 503, "nobody listens there"
    assert records[0]["reason"] == "event_malformed"
    assert {each["service"] for each in records} == {"tpu-provisioner-provision"}
    assert (records[-1]["message"], records[-1]["wake"], records[-1]["function"]) == ("ticked", "tick", target)


def test_a_wrong_setting_stops_the_start_and_is_named(bundle: Path) -> None:
    environ = environment("http://127.0.0.1:9", TPU_PROVISIONER_MODUS="active")
    with pytest.raises(NotStarted, match="TPU_PROVISIONER_MODUS"), started(bundle, "provision", environ):
        pass


def test_the_bundle_imports_itself_and_what_its_requirements_list(bundle: Path, tmp_path: Path) -> None:
    names = list_pinned(bundle / "requirements.txt")
    output = run_alone(ALONE, names, tmp_path, cwd=bundle, environ=environment("http://127.0.0.1:9"))

    files = [Path(line) for line in output.splitlines()]
    assert len(files) > 40
    assert all(path.is_relative_to(bundle) for path in files)
    # Each client costs a part of a cold start (docs/decisions/clients.md).
    assert not {"google-cloud-logging", "google-cloud-pubsub"} & set(names)


def test_nothing_is_open_before_the_fork(bundle: Path) -> None:
    done = run_python("-B", "-c", OPEN, cwd=bundle, env=environment("http://127.0.0.1:9"), succeeds=True)

    assert json.loads(done.stdout.splitlines()[-1]) == [0, 0, 0]
