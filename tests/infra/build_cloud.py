"""A pretended cloud behind stub programs: the parts of five programs that the scripts use.

The programs are gcloud, terraform, docker, kubectl and go.

Each stub records how it was called, and changes a small world in a JSON file as the real program
would. A stub imports this module, so that Python compiles it once and not at each call.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from tests.infra.pretended_deployment import deploy, plan_changes, pull

PROGRAMS = ("gcloud", "terraform", "docker", "kubectl", "go", "pools")
WORLD = "PRETENDED_WORLD"
REGIONS = "us-central1\nus-east5"
DIGEST = "sha256:" + "5" * 64
EMPTY: dict[str, Any] = {
    "calls": [],
    "apis": [],
    "buckets": {},
    "repositories": [],
    "images": [],
    "terraform": {},
    "cluster": [],
    "paused": [],
    "detached": [],
    "pools_removed": False,
    "published": [],
    "apply_fails": [],
}


def install(folder: Path) -> None:
    """Put the stubs, and this Python as python3, into a folder for PATH."""
    folder.mkdir()
    root = Path(__file__).resolve().parents[2]
    code = f"import sys; sys.path.insert(0, '{root}'); from tests.infra.build_cloud import main; sys.exit(main())"
    for program in PROGRAMS:
        stub = folder / program
        stub.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S -c "{code}" {program} "$@"\n')
        stub.chmod(0o755)
    (folder / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    (folder / "python3").chmod(0o755)


class Gone(Exception):
    """What was asked for is not there."""


KILLED = "Killed"
"""An error of an apply that a signal ended."""


class Cloud:
    """The world for the time of one call."""

    def __init__(self, world: dict[str, Any], words: list[str]) -> None:
        self.world, self.words = world, words
        self.plain = [word for word in words if word == "-" or not word.startswith("-")]
        self.options = dict(word.lstrip("-").partition("=")[::2] for word in words if word.startswith("--"))

    def answer(self, program: str) -> str:
        """Do what the command means and return what it prints."""
        parts = {"projects": "iam", "iam": "iam", "pubsub": "pubsub"} if program == "gcloud" else {}
        part = parts.get(self.plain[0], program) if parts else program
        answer: str = getattr(self, f"_{part}")()
        return answer

    def _gcloud(self) -> str:
        plain, options = self.plain, self.options
        group = " ".join(plain[:3])
        if plain[:2] == ["services", "enable"]:
            self.world["apis"] = sorted({*self.world["apis"], *plain[2:]})
        elif group.startswith("storage"):
            return self._storage()
        elif group.startswith("artifacts repositories"):
            self._repository(plain[2], f"{options['project']}/{plain[3]}")
            return self._mark(plain[3])
        elif group == "container clusters get-credentials":
            Path(os.environ["KUBECONFIG"]).write_text(plain[3])
        elif plain[:2] == ["logging", "read"]:
            return "answered"
        elif plain[-1] == "list":
            return "[]" if "json" in self.words[-2] else REGIONS
        elif plain[0] == "scheduler":
            return self._scheduler(plain[2], plain[3])
        return ""

    def _pubsub(self) -> str:
        verb = self.plain[2]
        if verb == "publish":
            message = [self.plain[3], self.options["attribute"], self.options["message"]]
            self.world["published"].append(message)
        elif verb == "modify-push-config":
            self.world["detached"] = sorted({*self.world["detached"], self.plain[3]})
        return ""

    def _iam(self) -> str:
        """Know the number of each project, and grants of nobody."""
        plain = self.plain
        if plain[:2] == ["projects", "get-iam-policy"]:
            return '{"bindings": []}'
        return "123456789" if plain[:2] == ["projects", "describe"] else ""

    def _scheduler(self, verb: str, job: str) -> str:
        if verb == "pause":
            self.world["paused"].append(job)
        return "PAUSED" if job in self.world["paused"] else "ENABLED"

    def _storage(self) -> str:
        plain, buckets = self.plain, self.world["buckets"]
        if plain[1] == "buckets":
            verb, name = plain[2], plain[3]
            if verb == "create":
                buckets[name] = {"versioned": False, "objects": []}
            elif name not in buckets:
                raise Gone(f"ERROR: (gcloud.storage.buckets.{verb}) {name} not found: 404.")
            elif verb == "update":
                buckets[name]["versioned"] = "--versioning" in self.words
            elif verb == "delete":
                del buckets[name]
            return self._mark(name)
        if plain[1] == "cp":
            return self._copy(plain[2], plain[3])
        bucket, _, prefix = plain[2].removeprefix("gs://").partition("/")
        held = buckets[f"gs://{bucket}"]["objects"]
        pattern = re.escape(prefix).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
        matching = [each for each in held if re.fullmatch(pattern, each)]
        if not matching:
            raise Gone("ERROR: One or more URLs matched no objects.")
        if plain[1] == "rm":
            buckets[f"gs://{bucket}"]["objects"] = [each for each in held if each not in matching]
        return "\n".join(matching)

    def _mark(self, name: str) -> str:
        """Return what was asked for about something: its name, or whose it is."""
        marks = {
            "value(labels.app)": "tpu-provisioner",
            "value(description)": f"Images of {name.removesuffix('-images')}, made by its build",
        }
        return marks.get(self.options.get("format", ""), name)

    def _copy(self, source: str, target: str) -> str:
        """Keep an object in a folder of its own for the test, or give it back."""
        store = Path(os.environ[WORLD]).with_name("objects")
        bucket, name = (target if target.startswith("gs://") else source).removeprefix("gs://").split("/", 1)
        if f"gs://{bucket}" not in self.world["buckets"]:
            raise Gone(f"ERROR: (gcloud.storage.cp) gs://{bucket} not found: 404.")
        held = self.world["buckets"][f"gs://{bucket}"]["objects"]
        path = store / name.replace("/", "_")
        if target.startswith("gs://"):
            store.mkdir(exist_ok=True)
            path.write_bytes(sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes())
            self.world["buckets"][f"gs://{bucket}"]["objects"] = sorted({*held, name})
        elif name not in held:
            raise Gone("ERROR: (gcloud.storage.cp) The following URLs matched no objects or files")
        else:
            Path(target).write_bytes(path.read_bytes())
        return ""

    def _repository(self, verb: str, name: str) -> None:
        repositories = self.world["repositories"]
        if verb == "create":
            repositories.append(name)
        elif name not in repositories:
            raise Gone("ERROR: NOT_FOUND: Requested entity was not found.")
        elif verb == "delete":
            repositories.remove(name)

    def _terraform(self) -> str:
        words, deployed, verb = self.words, self.world["terraform"], self.words[1]
        if verb == "init":
            config = dict(word.split("=", 2)[1:] for word in words if word.startswith("-backend-config="))
            if config:  # else the state is a local file
                self.world["state_object"] = [f"gs://{config['bucket']}", f"{config['prefix']}/default.tfstate"]
        elif verb == "output":
            return json.dumps({name: {"value": value} for name, value in deployed.get("outputs", {}).items()})
        elif verb == "state":
            return self._state(deployed)
        elif verb == "plan":
            values = json.loads(Path(options_of(words, "-var-file")).read_text())
            plan = {"values": values, "resource_changes": plan_changes(deployed, values)}
            Path(options_of(words, "-out")).write_text(json.dumps(plan))
        elif verb == "show":
            return Path(words[-1]).read_text()
        elif verb == "apply":
            self._apply(json.loads(Path(words[-1]).read_text()))
        elif verb == "destroy":
            self.world["terraform"] = {}
            self.world["paused"] = self.world["detached"] = []
        return ""

    def _apply(self, plan: dict[str, Any]) -> None:
        if self.world["apply_fails"]:
            raise Gone(self.world["apply_fails"].pop(0))
        bucket, name = self.world["state_object"]
        held = self.world["buckets"][bucket]["objects"]
        self.world["buckets"][bucket]["objects"] = sorted({*held, name})
        self.world["terraform"] = deploy(plan["values"])

    def _state(self, deployed: dict[str, Any]) -> str:
        words = self.words
        if words[2] == "list":
            return "\n".join(deployed.get("resources", []))
        if words[2] == "push":
            self._push(json.loads(Path(words[-1]).read_text()))
            return ""
        if words[2] == "rm":
            deployed["resources"].remove(words[-1])
            return ""
        outputs = deployed.get("outputs", {})
        return json.dumps(
            {
                "serial": self.world.get("serial", 1),
                "outputs": {name: {"value": value} for name, value in outputs.items()},
                "resources": [pull(each, outputs) for each in deployed.get("resources", [])],
            }
        )

    def _push(self, state: dict[str, Any]) -> None:
        if state["serial"] <= self.world.get("serial", 1):
            raise Gone("Failed to write state: cannot import state with an older serial")
        self.world["serial"] = state["serial"]

    def _docker(self) -> str:
        plain = self.plain
        if plain[0] == "push":
            self.world["images"] = sorted({*self.world["images"], plain[1]})
        if plain[0] == "pull" and plain[1] not in self.world["images"]:
            raise Gone(f"manifest for {plain[1]} not found")
        if plain[0] == "inspect":
            return f"somewhere.else/x@{DIGEST}\n{plain[-1].rpartition(':')[0]}@{DIGEST}\n"
        return ""

    def _kubectl(self) -> str:
        plain, words = self.plain, self.words
        where = Path(os.environ.get("KUBECONFIG", "none")).name
        if plain[0] == "kustomize":
            product = Path(plain[1]).name
            return f"image: registry.k8s.io/{product}/{product}:v1\n"
        if plain[0] == "apply":
            self.world["cluster"] = sorted({*self.world["cluster"], f"{where} {Path(words[-1]).name}"})
        if plain[0] == "delete":
            self.world["cluster"] = [each for each in self.world["cluster"] if "exporter" not in each]
        return ""

    def _go(self) -> str:
        module = Path(os.environ["PRETENDED_MODULES"], self.words[-1].replace("/", "_"))
        (module / "config/default").mkdir(parents=True, exist_ok=True)
        return json.dumps({"Dir": str(module)})

    def _pools(self) -> str:
        if "--check" not in self.words:
            self.world["pools_removed"] = True
        return ""


def options_of(words: list[str], name: str) -> str:
    """Return the value of an option that has one dash, as Terraform's have."""
    return next(word.partition("=")[2] for word in words if word.startswith(f"{name}="))


def main() -> int:
    """Be one of the stubs."""
    path = Path(os.environ[WORLD])
    world = json.loads(path.read_text())
    program, words = sys.argv[1], sys.argv[2:]
    world["calls"].append([program, *words])
    code, message, complaint = 0, "", ""
    try:
        message = Cloud(world, words).answer(program)
    except Gone as error:
        code, complaint = 137 if str(error) == KILLED else 1, str(error)
    path.write_text(json.dumps(world))
    sys.stdout.write(f"{message}\n" if message else "")
    sys.stderr.write(f"{complaint}\n" if complaint else "")
    return code
