"""A pretended cloud behind stub programs: gcloud, terraform, docker, kubectl and helm.

Each stub records how it was called, and changes a small world in a JSON file as the real program
would. A test says with `refusals` what a program is to answer instead, and `plan` is what
Terraform's next plan has.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]

PROGRAMS = ("gcloud", "terraform", "docker", "kubectl", "helm")
WORLD = "PRETENDED_WORLD"
DIGEST = "sha256:" + "5" * 64
BUCKET = "module.environment[0].google_storage_bucket.artifacts"
CLUSTER = "module.environment[0].google_container_cluster.this"
TOPIC = "module.provisioner.google_pubsub_topic.workload_events"
PATH = "projects/a-project/locations/us-east5/clusters/tpu-cluster"
OUTPUTS: Json = {
    "environment": {"bucket_url": "gs://training-artifacts"},
    "clusters": {"environment": {"path": PATH, "private": False}},
    "helm_values": {"environment": {"cluster": PATH}},
    "queueing": {"jobset": "v0.11.1", "kueue": "v0.15.2"},
    "topics": {"workload_events": "projects/a-project/topics/tpu-provisioner-workload-events"},
    "subscriptions": {each: f"subscriptions/{each}" for each in ("provision", "collect_ends", "dead_letters")},
    "scheduler_jobs": ["jobs/provision", "jobs/collect"],
}
EMPTY: Json = {
    "calls": [],
    "accounts": [],
    "roles": {},
    "repositories": [],
    "images": [],
    "state": [],
    "installed": [],
    "paused": [],
    "pools": [],
    "pods": [],
    "topic_there": "",
    "plan": [],
    "warns": "",
    "refusals": {},
}


class Refused(Exception):
    """A program ends with an error; the text is what it says."""


def install(folder: Path) -> None:
    """Put the stubs, and this Python as python3, into a folder for PATH."""
    folder.mkdir()
    root = Path(__file__).resolve().parents[2]
    code = (
        f"import sys; sys.path.insert(0, '{root}'); from tests.infra.pretended_cloud import main; sys.exit(main())"
    )
    for program in PROGRAMS:
        (folder / program).write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S -c "{code}" {program} "$@"\n')
    (folder / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    for path in folder.iterdir():
        path.chmod(0o755)


class Cloud:
    """The world for the time of one call."""

    def __init__(self, world: Json, words: list[str]) -> None:
        self.world, self.words = world, words
        self.plain = [word for word in words if not word.startswith("-")]
        self.options = dict(word.lstrip("-").partition("=")[::2] for word in words if word.startswith("-"))

    def answer(self, program: str) -> str:
        """Do what the command means and return what it prints."""
        line = " ".join((program, *self.words))
        for pattern, complaint in self.world["refusals"].items():
            if re.search(pattern, line):
                raise Refused(complaint)
        answer: str = getattr(self, f"_{program}")()
        return answer

    def _gcloud(self) -> str:
        group, verb = self.plain[:2]
        if group == "storage" and verb != "service-agent":
            return self._storage()
        answers = {
            ("config", "get"): "a-project",
            ("projects", "describe"): "123456789",
            ("logging", "read"): "answered",
        }
        if (group, verb) in answers:
            return answers[group, verb]
        name = "_" + f"{group}_{verb}".replace("-", "_")
        return str(getattr(self, name)()) if hasattr(self, name) else ""

    def _iam_service_accounts(self) -> str:
        verb, name = self.plain[2:4]
        accounts = self.world["accounts"]
        if verb == "create":
            accounts.append(f"{name}@a-project.iam.gserviceaccount.com")
        elif name not in accounts and verb == "describe":
            raise Refused("NOT_FOUND")
        elif verb == "delete":
            accounts.remove(name)
        return name

    def _iam_roles(self) -> str:
        verb, name = self.plain[2:4]
        roles, key = self.world["roles"], f"{self.options['project']}/{name}"
        if verb == "describe" and key not in roles:
            raise Refused("NOT_FOUND")
        if verb in ("create", "update"):
            roles[key] = self.options["permissions"]
        return "True" if roles.get(key) == "deleted" else ""

    def _artifacts_repositories(self) -> str:
        verb, name = self.plain[2:4]
        repositories = self.world["repositories"]
        if verb == "create":
            repositories.append(name)
        elif name not in repositories and verb == "describe":
            raise Refused("NOT_FOUND")
        elif verb == "delete":
            repositories.remove(name)
        return name

    def _container_clusters(self) -> str:
        Path(os.environ["KUBECONFIG"]).write_text(self.plain[3])
        return ""

    def _container_node_pools(self) -> str:
        pools = self.world["pools"]
        if self.plain[2] == "delete":
            pools[:] = [each for each in pools if each["name"] != self.plain[3]]
        return json.dumps(pools)

    def _scheduler_jobs(self) -> str:
        verb, job = self.plain[2:4]
        paused = self.world["paused"]
        if verb == "pause":
            paused.append(job)
        return "PAUSED" if job in paused else "ENABLED"

    def _storage(self) -> str:
        """Have buckets as folders, and objects as files in them."""
        verb, *places = self.plain[1:]
        if verb == "buckets":
            return self._bucket(*places[:2])
        if verb == "cp":
            *sources, target = map(find_place, places)
            for source in sources:
                if not source.exists():
                    raise Refused("ERROR: (gcloud.storage.cp) The following URLs matched no objects or files")
                place = target / source.name if places[-1].endswith("/") else target
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(source.read_bytes())
            return ""
        place = find_place(places[0].removesuffix("/**"))
        if not place.exists():
            raise Refused("ERROR: One or more URLs matched no objects.")
        if verb == "rm":
            shutil.rmtree(place)
        return str(place)

    def _bucket(self, verb: str, url: str) -> str:
        if verb == "create":
            find_place(url).mkdir(parents=True)
        elif not find_place(url).is_dir():
            raise Refused(f"ERROR: (gcloud.storage.buckets.{verb}) {url} not found: 404.")
        return url

    def _terraform(self) -> str:
        verb = self.plain[0]
        state = self.world["state"]
        if verb == "plan":
            Path(self.options["out"]).write_text(json.dumps({"resource_changes": self.world["plan"]}))
            return str(self.world["warns"])
        if verb == "show":
            return Path(self.words[-1]).read_text()
        if verb == "output":
            values = {name: {"value": value} for name, value in OUTPUTS.items()} if CLUSTER in state else {}
            return json.dumps(values.get(self.plain[1], {}).get("value") if len(self.plain) > 1 else values)
        if verb == "apply" and "target" not in self.options:
            state[:] = sorted({*state, BUCKET, CLUSTER, TOPIC})
        elif verb == "destroy":
            targets = [word.removeprefix("-target=") for word in self.words if word.startswith("-target=")]
            state[:] = [each for each in state if each not in targets]
        return "\n".join(state) if verb == "state" else ""

    def _docker(self) -> str:
        images = self.world["images"]
        if self.plain[0] == "push":
            images.append(self.plain[1])
        if self.plain[0] == "pull" and self.plain[1] not in images:
            raise Refused("manifest unknown")
        return f"x/y@{DIGEST}\n{self.plain[-1].rpartition(':')[0]}@{DIGEST}" if self.plain[0] == "inspect" else ""

    def _kubectl(self) -> str:
        verb, installed = self.plain[0], self.world["installed"]
        if verb == "kustomize":
            product = Path(self.plain[1]).name
            return f"image: registry.k8s.io/{product}/{product}:v1"
        if verb == "apply":
            installed.append(Path(self.words[-1]).stem)
        if verb == "delete" and self.plain[1] == "namespace":
            installed[:] = [each for each in installed if each != "exporter"]
        if verb == "get":
            return (
                json.dumps({"items": self.world["pods"]}) if self.plain[1] == "pods" else self.world["topic_there"]
            )
        return ""

    def _helm(self) -> str:
        self.world["installed"] = sorted({*self.world["installed"], "exporter"})
        return ""


def find_place(url: str) -> Path:
    """Return the file of an object, or the path itself."""
    return (
        Path(os.environ[WORLD]).with_name("gs") / url.removeprefix("gs://")
        if url.startswith("gs://")
        else Path(url)
    )


def main() -> int:
    """Be one of the stubs."""
    path = Path(os.environ[WORLD])
    world = json.loads(path.read_text())
    program, *words = sys.argv[1:]
    if program == "terraform":
        words = [word for word in words if not word.startswith("-chdir")]
    world["calls"].append([program, *words])
    code, message, complaint = 0, "", ""
    try:
        message = Cloud(world, words).answer(program)
    except Refused as error:
        code, complaint = 1, str(error)
    path.write_text(json.dumps(world))
    sys.stdout.write(f"{message}\n" if message else "")
    sys.stderr.write(f"{complaint}\n" if complaint else "")
    return code
