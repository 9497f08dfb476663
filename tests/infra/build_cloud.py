"""A pretended cloud behind stub programs: the parts of six programs that the scripts use.

The programs are gcloud, terraform, docker, kubectl, helm and go.

Each stub records how it was called, and changes a small world in a JSON file as the real program
would. A stub imports this module, so that Python compiles it once and not at each call.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.infra.pretended_deployment import deploy, plan_changes, pull

PROGRAMS = ("gcloud", "terraform", "docker", "kubectl", "helm", "go", "pools")
WORLD = "PRETENDED_WORLD"
REGIONS = "us-central1\nus-east5"
DIGEST = "sha256:" + "5" * 64
EMPTY: dict[str, Any] = {
    "calls": [],
    "repositories": [],
    "images": [],
    "terraform": {},
    "cluster": [],
    "paused": [],
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
        if group.startswith("storage"):
            return self._storage()
        if group.startswith("artifacts repositories"):
            self._repository(plain[2], f"{options['project']}/{plain[3]}")
            return self._mark(plain[3])
        if group == "container clusters get-credentials":
            Path(os.environ["KUBECONFIG"]).write_text(plain[3])
        elif plain[:2] == ["logging", "read"]:
            return "answered"
        elif plain[-1] == "list":
            return "[]" if "json" in self.words[-2] else REGIONS
        elif plain[0] == "scheduler":
            return self._scheduler(plain[2], plain[3])
        return ""

    def _pubsub(self) -> str:
        if self.plain[2] == "publish":
            self.world["published"].append(self.options["attribute"])
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
        """Have buckets as folders, and objects as files in them."""
        plain = self.plain
        if plain[1] == "buckets":
            verb, bucket = plain[2], find_place(plain[3])
            if verb == "create":
                bucket.mkdir(parents=True)
            elif not bucket.is_dir():
                raise Gone(f"ERROR: (gcloud.storage.buckets.{verb}) {plain[3]} not found: 404.")
            elif verb == "delete":
                shutil.rmtree(bucket)
            return self._mark(plain[3])
        if plain[1] == "cp":
            source, target = (Path("/dev/stdin") if each == "-" else find_place(each) for each in plain[2:4])
            if not source.exists():
                raise Gone("ERROR: (gcloud.storage.cp) The following URLs matched no objects or files")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            return ""
        held = [path for path in find_place("gs://").rglob("*") if path.is_file()]
        matching = [path for path in held if path.match(str(find_place(plain[2]))) or "**" in plain[2]]
        if not matching:
            raise Gone("ERROR: One or more URLs matched no objects.")
        for path in matching if plain[1] == "rm" else ():
            path.unlink()
        return "\n".join(map(str, matching))

    def _mark(self, name: str) -> str:
        """Return what was asked for about something: its name, or whose it is."""
        marks = {
            "value(labels.app)": "tpu-provisioner",
            "value(description)": f"Images of {name.removesuffix('-images')}, made by its build",
        }
        return marks.get(self.options.get("format", ""), name)

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
                self.world["state_object"] = f"gs://{config['bucket']}/{config['prefix']}/default.tfstate"
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
            self.world["paused"] = []
        return ""

    def _apply(self, plan: dict[str, Any]) -> None:
        if self.world["apply_fails"]:
            raise Gone(self.world["apply_fails"].pop(0))
        place = find_place(self.world["state_object"])
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
        self.world["terraform"] = deploy(plan["values"])

    def _state(self, deployed: dict[str, Any]) -> str:
        words = self.words
        if words[2] == "list":
            return "\n".join(deployed.get("resources", []))
        if words[2] == "push":
            self.world["serial"] = json.loads(Path(words[-1]).read_text())["serial"]
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

    def _helm(self) -> str:
        where = Path(os.environ["KUBECONFIG"]).name
        self.world["cluster"] = sorted({*self.world["cluster"], f"{where} {self.plain[1]}"})
        return ""

    def _go(self) -> str:
        module = Path(os.environ["PRETENDED_MODULES"], self.words[-1].replace("/", "_"))
        (module / "config/default").mkdir(parents=True, exist_ok=True)
        return json.dumps({"Dir": str(module)})

    def _pools(self) -> str:
        if "--check" not in self.words:
            self.world["pools_removed"] = True
        return ""


def find_place(url: str) -> Path:
    """Return the file of an object, or the path itself."""
    if not url.startswith("gs://"):
        return Path(url)
    return Path(os.environ[WORLD]).with_name("gs") / url.removeprefix("gs://")


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
