"""The staged folder, started as Google's buildpack starts it, without this repository."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import urllib3
from functions_framework import create_app

from demo.functions import stage
from shared import deliver as function
from shared.engine.outside import Role
from shared.model.errors import Throttled
from standins.kit.addresses import draw_ports, listens
from standins.kit.processes import PATIENCE_SECONDS, wait_until
from tests.builders import CLUSTER, a_demand_event, a_push, an_over_event
from tests.bundle.canned_cloud import CannedCloud
from tests.engine.world import World
from tests.program_runs import run_python

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
TARGETS = ("provision", "collect")
TICK = f"/tick?cluster={CLUSTER}"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "source"
    stage(folder)
    return folder


def environment(cloud: CannedCloud | None = None, /, **change: str) -> dict[str, str]:
    """As on Cloud Run: no PYTHONPATH, no home of ours, only what the platform and Terraform set."""
    url = cloud.url if cloud else "http://127.0.0.1:9"
    clusters = {CLUSTER: {"endpoint": url, "zone": "us-east5-b"}}
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "K_SERVICE": "tpu-provisioner-provision",
        "K_REVISION": "tpu-provisioner-provision-00001-abc",
        "TPU_PROVISIONER_CLUSTERS": json.dumps(clusters),
        "TPU_PROVISIONER_GKE_ENDPOINT": url,
        "TPU_PROVISIONER_CREDENTIALS": "anonymous",
        **change,
    }


class Started:
    """One function's process: its address and the lines that it wrote."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process, self.port, self.log = process, port, log

    @property
    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    def wait_until_listening(self) -> None:
        wait_until(lambda: listens(self.port) or self.process.poll() is not None, what="the function's port")
        assert self.process.poll() is None, f"the function ended: {self.lines}"

    def post(self, body: bytes, path: str = "/") -> urllib3.BaseHTTPResponse:
        headers = {
            "Connection": "close"  # a kept connection would be waited for when the process stops
        }
        return urllib3.request(
            "POST", f"http://127.0.0.1:{self.port}{path}", body=body, headers=headers, timeout=PATIENCE_SECONDS
        )

    def stop(self) -> list[dict[str, Any]]:
        """Stop the process and return its structured records."""
        self.process.terminate()
        self.process.wait(PATIENCE_SECONDS)
        return [json.loads(line) for line in self.lines if line.startswith("{")]


@contextmanager
def started(bundle: Path, target: str, environ: dict[str, str]) -> Iterator[Started]:
    port = draw_ports(1)[0]
    command = [str(BIN / "functions-framework"), "--source", "main.py", "--target", target]
    command += ["--signature-type", "http", "--host", "127.0.0.1", "--port", str(port)]
    own = {"FUNCTION_TARGET": target, "PORT": str(port)}
    log = bundle.with_name(f"{target}.log")
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=bundle, env=environ | own, stdout=output, stderr=output)
    found = Started(process, port, log)
    try:
        yield found
    finally:
        found.stop()


def test_each_function_of_the_bundle_starts_and_gives_a_real_answer(bundle: Path) -> None:
    bodies = {"provision": a_push(a_demand_event()), "collect": a_push(an_over_event())}
    with CannedCloud() as cloud, ExitStack() as stack:
        running = {target: stack.enter_context(started(bundle, target, environment(cloud))) for target in TARGETS}
        answers, ticks, records = {}, {}, {}
        for target, function in running.items():
            function.wait_until_listening()
            answers[target] = function.post(bodies[target]).status
            ticks[target] = function.post(b"", TICK)
            records[target] = function.stop()
        names = [pool["name"] for pool in cloud.created_pools()]

    assert answers == dict.fromkeys(TARGETS, 200)
    assert {target: tick.status for target, tick in ticks.items()} == dict.fromkeys(TARGETS, 200)
    assert ticks["provision"].json()["errors"] == 0
    # By the demand and the tick, because this server remembers no pool.
    assert len(set(names)) == 1
    made, *_, ticked = records["provision"]
    assert (made["decision"], made["service"]) == ("create", "tpu-provisioner-provision")
    assert (ticked["message"], ticked["wake"], ticked["function"]) == ("ticked", "tick", "provision")
    assert records["collect"][-1]["function"] == "collect"


def test_a_wrong_setting_stops_the_start_and_is_named(bundle: Path) -> None:
    with started(bundle, "provision", environment(None, TPU_PROVISIONER_MODUS="active")) as function:
        code = function.process.wait(PATIENCE_SECONDS)
        function.stop()

    assert code != 0
    assert "TPU_PROVISIONER_MODUS" in "".join(function.lines)


ASK_FOR_MODULES = """
import json, os, sys
from functions_framework import create_app
client = create_app("provision", "main.py", "http").test_client()
status = client.post("/", data=os.environ["BODY"]).status_code
files = {name: getattr(module, "__file__", None) or "" for name, module in list(sys.modules.items())}
print(json.dumps({"status": status, "files": files}))
"""


def test_the_bundle_imports_itself_and_what_its_requirements_list(bundle: Path) -> None:
    with CannedCloud() as cloud:
        environ = environment(cloud, BODY=a_push(a_demand_event()).decode())
        result = run_python("-c", ASK_FOR_MODULES, cwd=bundle, env=environ, succeeds=True)
        assert len(cloud.created_pools()) == 1
    output = json.loads(result.stdout.splitlines()[-1])
    assert output["status"] == 200
    files: dict[str, str] = output["files"]
    listed = re.findall(r"^([A-Za-z0-9._-]+)==", (bundle / "requirements.txt").read_text(), re.MULTILINE)
    allowed = {re.sub(r"[-_.]+", "-", name).lower() for name in listed}
    owners = dict(metadata.packages_distributions())
    owners.pop("_distutils_hack", None)  # loaded by setuptools' own .pth file in every process
    foreign = {
        top: owners[top]
        for top in {name.partition(".")[0] for name, file in files.items() if "site-packages" in file}
        if top in owners and not {re.sub(r"[-_.]+", "-", name).lower() for name in owners[top]} & allowed
    }

    assert len(allowed) > 5
    assert foreign == {}
    # Each client costs a part of a cold start (docs/decisions/clients.md).
    assert not {"google.cloud.logging", "google.cloud.pubsub_v1"} & files.keys()
    ours = [file for name, file in files.items() if name.partition(".")[0] in ("shared", "main")]
    assert len(ours) > 20
    assert all(Path(file).resolve().is_relative_to(bundle.resolve()) for file in ours)
    in_the_repository = [f for f in files.values() if f.startswith(str(ROOT)) and "site-packages" not in f]
    assert in_the_repository == []


def test_the_bundle_is_what_runs_and_nothing_else(bundle: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    stage(again)
    files = sorted(str(path.relative_to(again)) for path in again.rglob("*") if path.is_file())

    assert {"main.py", "requirements.txt", "shared/__init__.py"} <= set(files)
    assert all(
        name in ("main.py", "requirements.txt") or re.fullmatch(r"shared/.*\.(py|json)", name) for name in files
    )
    assert "shared/edges/pubsub_publisher.py" not in files
    assert all((again / name).read_bytes() == (bundle / name).read_bytes() for name in files)


# --- in this process, through the one switch by which other ports come in ---


@pytest.fixture
def client(
    bundle: Path, request: pytest.FixtureRequest, restored_logging: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A test client of one function of the bundle, on fakes, with the `shared` of this process."""
    world = World()
    folders, workdir = sys.path[:], Path.cwd()
    monkeypatch.setattr(function, "_KEPT", dict.fromkeys(Role, world.ports))
    application: Any = create_app(request.param, str(bundle / "main.py"), "http")  # type: ignore[no-untyped-call]
    found = application.test_client()
    found.gke = world.gke
    yield found
    sys.path[:] = folders
    os.chdir(workdir)


@pytest.mark.parametrize("client", ["collect"], indirect=True)
def test_retry_after_reaches_pubsub_as_a_header(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_cluster: str) -> None:
        raise Throttled("429", retry_after_seconds=7)

    monkeypatch.setattr(client.gke, "list", refuse)
    answer = client.post("/", data=a_push(an_over_event()))

    assert (answer.status_code, answer.headers["Retry-After"], answer.data) == (503, "7", b"")


@pytest.mark.parametrize("client", ["provision"], indirect=True)
@pytest.mark.parametrize("body", [b"", b"nonsense", b'{"message": {}}'])
def test_a_body_of_any_kind_is_answered_and_never_a_400_of_the_framework(client: Any, body: bytes) -> None:
    assert client.post("/", data=body).status_code == 200
