"""Runs the build's scripts, and bootstrap.sh, on a pretended cloud behind stub programs.

Each stub (gcloud, terraform, docker, kubectl, helm) asks this process, which notes the call and
changes what is there as the real program would. A test says with `refusals` what a program is to
answer instead, and with `plan` what Terraform's next plan has.
"""

import copy
import json
import os
import re
import shutil
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from shared.model.labels import DEPLOYMENT, MANAGER, MANAGER_VALUE
from tests.program_runs import run_program

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "infra/build"
PROVISION = ROOT / "cloudbuild.provision.yaml"
DESTROY = ROOT / "cloudbuild.destroy.yaml"
NEEDED = (
    *("bash", "sh", "sed", "grep", "cat", "cp", "rm", "mkdir", "basename", "dirname", "head", "sleep", "env"),
    *("find", "sort", "xargs", "sha256sum", "cut", "tr", "tee", "diff"),
)
"""What the scripts use beside the stubs: what every image of the build has."""
PUBLIC = {
    "_TF_STATE_BUCKET": "old-state",
    "_TF_STATE_PREFIX": "tpu-environment",
    "_REGION": "us-east5",
    "_TENSORBOARD_REGION": "us-central1",
    "_ZONE": "us-east5-b",
    "_ARTIFACT_REPOSITORY_BUCKET_NAME": "training-artifacts",
    "_NETWORK_NAME": "tpu-network",
    "_SUBNET_NAME": "tpu-subnet",
    "_CLUSTER_NAME": "tpu-cluster",
    "_NAMESPACE": "tpu-training",
    "_TPU_TYPE": "v5litepod-16",
    "_NUM_TPU_POOLS": "1",
    "_NUM_OF_CHIPS": "16",
    "_JOBSET_API_VERSION": "v0.11.1",
    "_KUEUE_API_VERSION": "v0.15.2",
}
"""The public environment's command line, with versions that can be had."""
STATE = {name: PUBLIC[name] for name in ("_TF_STATE_BUCKET", "_TF_STATE_PREFIX")}
PROGRAMS = ("gcloud", "terraform", "docker", "kubectl", "helm")
DIGEST = "sha256:" + "5" * 64
BUCKET = "module.environment[0].google_storage_bucket.artifacts"
CLUSTER = "module.environment[0].google_container_cluster.this"
TOPIC = "module.provisioner.google_pubsub_topic.workload_events"
REGION = "projects/a-project/locations/us-east5"
PATH = f"{REGION}/clusters/tpu-cluster"
OUTPUTS: Json = {
    "environment": {"bucket_url": "gs://training-artifacts"},
    "clusters": {"environment": {"path": PATH, "private": False}},
    "helm_values": {"environment": {"cluster": PATH}},
    "queueing": {"jobset": "v0.11.1", "kueue": "v0.15.2"},
    "topics": {"workload_events": "projects/a-project/topics/tpu-provisioner-workload-events"},
    "subscriptions": {
        each: f"projects/a-project/subscriptions/{each}" for each in ("provision", "collect_ends", "dead_letters")
    },
    "scheduler_jobs": [f"{REGION}/jobs/{each}" for each in ("provision", "collect")],
}
_STUB = r"""#!{bash}
exec 3<>/dev/tcp/127.0.0.1/{port}
printf '%s\0' "$#" "${{0##*/}}" "$@" >&3
IFS= read -r -d '' -u 3 code && IFS= read -r -d '' -u 3 answer && IFS= read -r -d '' -u 3 complaint
printf '%s' "$answer"
printf '%s' "$complaint" >&2
exit "$code"
"""
_ANSWERS = {"config get": "a-project", "projects describe": "123456789", "logging read": "answered"}
"""What gcloud says in any state."""
Answer = tuple[int, str, str]  # a program's exit code and what it writes to both streams
Gcloud = Callable[[list[str]], Answer]


def a_pool(
    name: str, *, deployment: str | None = "a-project_tpu-provisioner", manager: str = MANAGER_VALUE
) -> Json:
    """A node pool as `gcloud` lists it."""
    return {"name": name, "config": {"labels": {MANAGER: manager}, "resourceLabels": {DEPLOYMENT: deployment}}}


class Refused(Exception):
    """A program ends with an error; the text is what it says."""


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Answer one call of one program."""
        count = int(self._read())
        program, *words = (self._read() for _ in range(count + 1))
        code, answer, complaint = self.server.answer(program, words)  # type: ignore[attr-defined] # see below
        self.wfile.write(f"{code}\0{answer}\0{complaint}\0".encode())

    def _read(self) -> str:
        return b"".join(iter(partial(self.rfile.read, 1), b"\0")).decode()


@contextmanager
def stubs(folder: Path, answer: Callable[[str, list[str]], Answer]) -> Iterator[None]:
    """Put the stubs, and this Python as python3, into a folder for PATH, and answer them."""
    folder.mkdir()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Handler) as server:
        server.answer = answer  # type: ignore[attr-defined] # what the handlers share
        text = _STUB.format(bash=shutil.which("bash"), port=server.server_address[1])
        python = f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n'
        for name, content in {**dict.fromkeys(PROGRAMS, text), "python3": python}.items():
            (folder / name).write_text(content)
            (folder / name).chmod(0o755)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


class Words:
    """The words of a call: those that are no option, and the options by their names."""

    def __init__(self, words: list[str]) -> None:
        self.all = words
        self.plain = [word for word in words if not word.startswith("-")]
        self.options = dict(word.lstrip("-").partition("=")[::2] for word in words if word.startswith("-"))


@dataclass
class Cloud:
    """What is there, and what was done to make it so."""

    folder: Path  # of the buckets, in which objects are files
    gcloud: Gcloud | None = None  # the real one, if there is one
    calls: list[list[str]] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict)
    repositories: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    outputs: Json = field(default_factory=lambda: OUTPUTS)
    installed: list[str] = field(default_factory=list)
    paused: list[str] = field(default_factory=list)
    pools: list[Json] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    topic_there: str = ""
    plan: list[Json] = field(default_factory=list)
    warns: str = ""
    refusals: dict[str, str] = field(default_factory=dict)

    def answer(self, program: str, words: list[str]) -> Answer:
        """Do what a call means, and return how it ends."""
        words = [word for word in words if not word.startswith("-chdir")]
        self.calls.append([program, *words])
        line = " ".join(self.calls[-1])
        for pattern, complaint in self.refusals.items():
            if re.search(pattern, line):
                return 1, "", f"{complaint}\n"
        if program == "gcloud" and self.gcloud:
            return self.gcloud(words)
        try:
            text: str = getattr(self, f"_{program}")(Words(words))
        except Refused as error:
            return 1, "", f"{error}\n"
        return 0, f"{text}\n" if text else "", ""

    def _gcloud(self, words: Words) -> str:
        group, subject = words.plain[:2]
        if group == "storage" and subject != "service-agent":
            return self._storage(words)
        names = {"service-accounts": self.accounts, "repositories": self.repositories}.get(subject)
        if names is not None:
            return self._keep(names, *words.plain[2:4])
        name = f"_{group}_{subject}".replace("-", "_")
        return _ANSWERS.get(f"{group} {subject}") or str(getattr(self, name, lambda _: "")(words))

    def _keep(self, names: list[str], verb: str, name: str) -> str:
        name = name.partition("@")[0]  # of an account, what it is created by
        if verb == "create":
            names.append(name)
        elif verb in ("describe", "delete") and name not in names:
            raise Refused("NOT_FOUND")
        elif verb == "delete":
            names.remove(name)
        return name

    def _iam_roles(self, words: Words) -> str:
        verb, name = words.plain[2:4]
        key = f"{words.options['project']}/{name}"
        if verb == "describe" and key not in self.roles:
            raise Refused("NOT_FOUND")
        if verb in ("create", "update"):
            self.roles[key] = words.options["permissions"]
        return ""

    def _container_node_pools(self, words: Words) -> str:
        if words.plain[2] == "delete":
            self.pools = [each for each in self.pools if each["name"] != words.plain[3]]
        return json.dumps(self.pools)

    def _scheduler_jobs(self, words: Words) -> str:
        verb, job = words.plain[2:4]
        if verb == "pause":
            self.paused.append(job)
        return "PAUSED" if job in self.paused else "ENABLED"

    def _storage(self, words: Words) -> str:
        verb, *places = words.plain[1:]
        if verb == "buckets":
            verb, url = places[:2]
            if verb == "create":
                self._place(url).mkdir(parents=True)
            elif not self._place(url).is_dir():
                raise Refused(f"ERROR: (gcloud.storage.buckets.{verb}) {url} not found: 404.")
            return url
        if verb == "cp":
            *sources, target = map(self._place, places)
            for source in sources:
                if not source.exists():
                    raise Refused("ERROR: (gcloud.storage.cp) The following URLs matched no objects or files")
                place = target / source.name if places[-1].endswith("/") else target
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(source.read_bytes())
            return ""
        place = self._place(places[0].removesuffix("/**"))
        if not place.exists():
            raise Refused("ERROR: One or more URLs matched no objects.")
        if verb == "rm":
            shutil.rmtree(place)
        return str(place)

    def _place(self, url: str) -> Path:
        return self.folder / url.removeprefix("gs://") if url.startswith("gs://") else Path(url)

    def _terraform(self, words: Words) -> str:
        verb = words.plain[0]
        if verb == "plan":
            Path(words.options["out"]).write_text(json.dumps({"resource_changes": self.plan}))
            return self.warns
        if verb == "show":
            return Path(words.all[-1]).read_text()
        if verb == "output":
            values = self.outputs if CLUSTER in self.state else {}
            whole = {name: {"value": value} for name, value in values.items()}
            return json.dumps(values.get(words.plain[1]) if len(words.plain) > 1 else whole)
        if verb == "apply" and "target" not in words.options:
            self.state = sorted({*self.state, BUCKET, CLUSTER, TOPIC})
        elif verb == "destroy":
            self.state = [each for each in self.state if f"-target={each}" not in words.all]
        return "\n".join(self.state) if verb == "state" else ""

    def _docker(self, words: Words) -> str:
        verb, image = words.plain[0], words.plain[-1]
        if verb == "push":
            self.images.append(image)
        if verb == "pull" and image not in self.images:
            raise Refused("manifest unknown")
        return f"x/y@{DIGEST}\n{image.rpartition(':')[0]}@{DIGEST}" if verb == "inspect" else ""

    def _kubectl(self, words: Words) -> str:
        verb, subject = words.plain[0], [*words.plain, ""][1]
        if verb == "kustomize":
            product = Path(subject).name
            return f"image: registry.k8s.io/{product}/{product}:v1"
        if verb == "apply":
            self.installed = sorted({*self.installed, Path(words.all[-1]).stem})
        if (verb, subject) == ("delete", "namespace"):
            self.installed = [each for each in self.installed if each != "exporter"]
        if verb == "get":
            return json.dumps({"items": self.pods}) if subject == "pods" else self.topic_there
        return ""

    def _helm(self, _: Words) -> str:
        self.installed = sorted({*self.installed, "exporter"})
        return ""


def load(path: Path) -> dict[str, Any]:
    """Return a build file."""
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


def list_scripts(path: Path) -> list[str]:
    """Return the scripts that a build file runs, in order."""
    return [Path(step["args"][0]).name for step in load(path)["steps"] if step["entrypoint"] == "bash"]


@dataclass(frozen=True)
class Bench:
    """A pretended cloud, a copy of the sources, and a build folder in which scripts run."""

    folder: Path
    cloud: Cloud

    @property
    def calls(self) -> list[str]:
        """Every call of a program as one line."""
        return [" ".join(call) for call in self.cloud.calls]

    @property
    def state(self) -> dict[str, Any]:
        """What is there, without what was done to make it so."""
        buckets = self.folder / "gs"
        objects = sorted(str(path.relative_to(buckets)) for path in buckets.rglob("*") if path.is_file())
        return copy.deepcopy(vars(self.cloud)) | {"calls": [], "objects": objects}

    def write_inputs(self, text: str | None) -> None:
        """Put a deployment.tfvars into the source, or take it away."""
        path = self.folder / "source/deployment.tfvars"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)

    def read_variables(self) -> dict[str, str]:
        """Return the substitutions that Terraform was given last."""
        content = json.loads((self.folder / "build/inputs/substitutions.json").read_text())
        values: dict[str, str] = content["substitutions"]
        return values

    def run(
        self, script: str, *words: str, code: int | None = 0, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one script of infra with these variables; it must end so, if that is known."""
        own = {
            "PATH": str(self.folder / "bin"),
            "HOME": str(self.folder),
            "LANG": os.environ.get("LANG", "C.UTF-8"),
            "BUILD_FOLDER": str(self.folder / "build"),
            "RETRY_PAUSE_SECONDS": "0",
            "PAUSE_SECONDS": "0",
            "PROJECT_ID": "a-project",
            "LOCATION": "us-east5",
        }
        path = self.folder / "source/infra" / script
        done = run_program(
            "bash", path, *words, env=own | variables, cwd=path.parents[1], input=variables.get("ANSWER")
        )
        assert code in (None, done.returncode), f"{script}:\n{done.stdout}{done.stderr}"
        return done

    def build(self, path: Path, code: int = 0, /, **substitutions: str) -> str:
        """Run a build file's scripts as Cloud Build does, and return what they say."""
        declared = load(path)["substitutions"]
        assert not substitutions.keys() - declared.keys()
        text, ended = "", 0
        for script in list_scripts(path):
            done = self.run(f"build/{script}", code=None, **(declared | substitutions))
            text, ended = text + done.stdout + done.stderr, done.returncode
            if ended:
                break
        assert ended == code, text
        return text

    def refuse(self, path: Path, **substitutions: str) -> str:
        """Run a build that must fail, up to that step, and return what it says."""
        return self.build(path, 1, **substitutions)


@contextmanager
def open_bench(folder: Path, gcloud: Gcloud | None = None) -> Iterator[Bench]:
    """Open one with an empty cloud, and the state's bucket that bootstrap.sh makes."""
    cloud = Cloud(folder / "gs", gcloud)
    for bucket in ("old-state", "a-project-tpu-provisioner-state"):
        (folder / "gs" / bucket).mkdir(parents=True)
    source = folder / "source"
    source.mkdir()
    for name in ("shared", "exporter"):
        (source / name).symlink_to(ROOT / name)
    # The scripts find their top folder by their own place, so these are copies.
    ignored = shutil.ignore_patterns(".terraform", "__pycache__")
    shutil.copytree(ROOT / "infra", source / "infra", ignore=ignored)
    (source / "infra/build/queueing.py").write_text("")  # tests/infra/test_build_programs.py has it
    with stubs(folder / "bin", cloud.answer):
        for name in NEEDED:
            (folder / "bin" / name).symlink_to(shutil.which(name) or f"no {name}")
        yield Bench(folder, cloud)
