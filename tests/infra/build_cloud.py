"""A pretended cloud behind stub programs: the parts of five programs that the scripts use.

The programs are gcloud, terraform, docker, kubectl and go.

Each stub records how it was called, may be told to fail at its n-th call, and otherwise changes a
small world in a JSON file as the real program would. Run as a program, this file is the stub; its
name says which.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

FUNCTIONS = ("provision", "collect", "settle", "sweep")
PROGRAMS = ("gcloud", "terraform", "docker", "kubectl", "go", "pools")
WORLD = "PRETENDED_WORLD"
DIGEST = "sha256:" + "5" * 64
EMPTY: dict[str, Any] = {
    "calls": [],
    "fail_at": 0,
    "fail_text": "ERROR: (stub) something broke",
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
    "unanswered": 0,
    "apply_fails": [],
    "policies": {},
    "custom_roles": {},
}


def fresh(path: Path) -> Path:
    """Write a world without anything and return its file."""
    path.write_text(json.dumps(EMPTY))
    return path


def read(path: Path) -> dict[str, Any]:
    """Return the world."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def change(path: Path, **values: Any) -> None:
    """Set some of the world."""
    path.write_text(json.dumps(read(path) | values))


def state_of(path: Path) -> dict[str, Any]:
    """Return what is there in the world, without what was done to make it so."""
    return {name: value for name, value in read(path).items() if name not in ("calls", "fail_at", "fail_text")}


def install(folder: Path) -> None:
    """Put the stubs, and this Python as python3, into a folder for PATH."""
    folder.mkdir()
    for program in PROGRAMS:
        stub = folder / program
        stub.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{__file__}" {program} "$@"\n')
        stub.chmod(0o755)
    (folder / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    (folder / "python3").chmod(0o755)


CLUSTER = "module.environment.google_container_cluster.this"
ARTIFACTS = "module.environment.google_storage_bucket.artifacts"
IMAGES = "module.environment.google_artifact_registry_repository.images[0]"


class Gone(Exception):
    """What was asked for is not there."""


class Cloud:
    """The world for the time of one call."""

    def __init__(self, world: dict[str, Any]) -> None:
        self.world = world

    def answer(self, program: str, words: list[str]) -> str:
        """Do what the command means and return what it prints."""
        plain = [word for word in words if not word.startswith("-")]
        options = dict(word.lstrip("-").partition("=")[::2] for word in words if word.startswith("--"))
        part = "iam" if program == "gcloud" and plain[0] in ("projects", "iam") else program
        answer: str = getattr(self, f"_{part}")(plain, options, words)
        return answer

    def _gcloud(self, plain: list[str], options: dict[str, str], words: list[str]) -> str:
        group = " ".join(plain[:3])
        if plain[:2] == ["services", "enable"]:
            self.world["apis"] = sorted({*self.world["apis"], *plain[2:]})
        elif group.startswith("storage"):
            return self._storage(plain, words)
        elif group.startswith("artifacts repositories"):
            self._repository(plain[2], f"{options['project']}/{plain[3]}")
        elif group == "container clusters get-credentials":
            Path(os.environ["KUBECONFIG"]).write_text(plain[3])
        elif group == "pubsub topics publish":
            self.world["published"].append([plain[3], options["attribute"], options["message"]])
        elif plain[:2] == ["logging", "read"]:
            late, self.world["unanswered"] = self.world["unanswered"], max(0, self.world["unanswered"] - 1)
            return "" if late else "answered"
        elif plain[1:] in (["locations", "list"], ["regions", "list"]):
            return "us-central1\nus-east5"
        elif plain[0] == "scheduler":
            return self._scheduler(plain[2], plain[3])
        elif group == "pubsub subscriptions modify-push-config":
            self.world["detached"] = sorted({*self.world["detached"], plain[3]})
        return ""

    def _iam(self, plain: list[str], options: dict[str, str], _: list[str]) -> str:
        """Keep the bindings of projects, each with one member."""
        if plain[0] == "iam":
            listed = self.world["custom_roles"].get(options["project"], [])
            return json.dumps(listed) if plain[1:3] == ["roles", "list"] else ""
        if plain[1] == "describe":
            return "123456789"
        policy = self.world["policies"].setdefault(plain[2], {"bindings": []})
        if plain[1] == "get-iam-policy":
            return json.dumps(policy)
        binding: dict[str, Any] = {"role": options["role"], "members": [options["member"]]}
        if path := options.get("condition-from-file"):
            binding["condition"] = json.loads(Path(path).read_text())
        elif options.get("condition") != "None" and any("condition" in each for each in policy["bindings"]):
            raise Gone("ERROR: a binding without a condition in a policy with conditions is prohibited")
        if plain[1].startswith("remove") and binding not in policy["bindings"]:
            raise Gone("ERROR: Policy binding with the specified principal, role, and condition not found!")
        others = [each for each in policy["bindings"] if each != binding]
        policy["bindings"] = others + [binding] * plain[1].startswith("add")
        return ""

    def _scheduler(self, verb: str, job: str) -> str:
        if verb == "pause":
            self.world["paused"].append(job)
        return "PAUSED" if job in self.world["paused"] else "ENABLED"

    def _storage(self, plain: list[str], words: list[str]) -> str:
        buckets = self.world["buckets"]
        if plain[1] == "service-agent":
            return "service-123456789@gs-project-accounts.iam.gserviceaccount.com"
        if plain[1] == "buckets":
            verb, name = plain[2], plain[3]
            if verb == "create":
                buckets[name] = {"versioned": False, "objects": []}
            elif name not in buckets:
                raise Gone(f"ERROR: (gcloud.storage.buckets.{verb}) {name} not found: 404.")
            elif verb == "update":
                buckets[name]["versioned"] = "--versioning" in words
            elif verb == "delete":
                del buckets[name]
            return name
        if plain[1] == "cp":
            return self._copy(plain[2], plain[3])
        bucket, _, prefix = plain[2].removeprefix("gs://").partition("/")
        held = buckets[f"gs://{bucket}"]["objects"]
        matching = [each for each in held if each.startswith(prefix.removesuffix("**"))]
        if not matching:
            raise Gone("ERROR: One or more URLs matched no objects.")
        if plain[1] == "rm":
            buckets[f"gs://{bucket}"]["objects"] = [each for each in held if each not in matching]
        return "\n".join(matching)

    def _copy(self, source: str, target: str) -> str:
        """Keep an object in a folder of its own for the test, or give it back."""
        store = Path(os.environ[WORLD]).with_name("objects")
        bucket, name = (target if target.startswith("gs://") else source).removeprefix("gs://").split("/", 1)
        held = self.world["buckets"][f"gs://{bucket}"]["objects"]
        path = store / name.replace("/", "_")
        if target.startswith("gs://"):
            store.mkdir(exist_ok=True)
            path.write_bytes(Path(source).read_bytes())
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

    def _terraform(self, plain: list[str], options: dict[str, str], words: list[str]) -> str:
        del plain
        deployed, verb = self.world["terraform"], words[1]
        if verb == "init":
            config = dict(word.split("=", 2)[1:] for word in words if word.startswith("-backend-config="))
            if config:  # else the state is a local file
                self.world["state_object"] = [f"gs://{config['bucket']}", f"{config['prefix']}/default.tfstate"]
        elif verb == "output":
            return json.dumps({name: {"value": value} for name, value in deployed.get("outputs", {}).items()})
        elif verb == "state":
            return self._state(words, deployed)
        elif verb == "untaint":
            self.world["tainted"].remove(words[-1])
        elif verb == "plan":
            values = json.loads(Path(options_of(words, "-var-file")).read_text())
            changes = plan_changes(deployed, deploy(values), words)
            plan = {"values": values, "whole": not has_targets(words), "resource_changes": changes}
            Path(options_of(words, "-out")).write_text(json.dumps(plan))
        elif verb == "show":
            return Path(words[-1]).read_text()
        elif verb == "apply":
            self._apply(json.loads(Path(words[-1]).read_text()))
        elif verb == "destroy":
            self.world["terraform"] = {}
            self.world["paused"] = self.world["detached"] = []
        del options
        return ""

    def _apply(self, plan: dict[str, Any]) -> None:
        if self.world["apply_fails"]:
            raise Gone(self.world["apply_fails"].pop(0))
        bucket, name = self.world["state_object"]
        held = self.world["buckets"][bucket]["objects"]
        self.world["buckets"][bucket]["objects"] = sorted({*held, name})
        if plan["whole"]:
            self.world["terraform"] = deploy(plan["values"])
        else:
            lifted = [each["address"] for each in plan["resource_changes"]]
            self.world["unprotected"] = sorted({*self.world.get("unprotected", ()), *lifted})

    def _state(self, words: list[str], deployed: dict[str, Any]) -> str:
        if words[2] == "list":
            return "\n".join(deployed.get("resources", []))
        if words[2] == "show":
            return f"# {words[-1]}:{' (tainted)' if words[-1] in self.world.get('tainted', ()) else ''}"
        if words[2] == "rm":
            deployed["resources"].remove(words[-1])
            return ""
        outputs = deployed.get("outputs", {})
        return json.dumps(
            {
                "outputs": {name: {"value": value} for name, value in outputs.items()},
                "resources": [pull(each, outputs) for each in deployed.get("resources", [])],
            }
        )

    def _docker(self, plain: list[str], options: dict[str, str], words: list[str]) -> str:
        del options
        if plain[0] == "push":
            self.world["images"] = sorted({*self.world["images"], plain[1]})
        if plain[0] == "pull" and plain[1] not in self.world["images"]:
            raise Gone(f"manifest for {plain[1]} not found")
        if plain[0] == "inspect":
            return f"somewhere.else/x@{DIGEST}\n{words[-1].rpartition(':')[0]}@{DIGEST}\n"
        return ""

    def _kubectl(self, plain: list[str], options: dict[str, str], words: list[str]) -> str:
        del options
        where = Path(os.environ.get("KUBECONFIG", "none")).name
        if plain[0] == "kustomize":
            product = Path(plain[1]).name
            return f"image: registry.k8s.io/{product}/{product}:v1\n"
        if plain[0] == "apply":
            self.world["cluster"] = sorted({*self.world["cluster"], f"{where} {Path(words[-1]).name}"})
        if plain[0] == "delete":
            self.world["cluster"] = [each for each in self.world["cluster"] if "exporter" not in each]
        return ""

    def _go(self, plain: list[str], options: dict[str, str], words: list[str]) -> str:
        del plain, options
        module = Path(os.environ["PRETENDED_MODULES"], words[-1].replace("/", "_"))
        (module / "config/default").mkdir(parents=True, exist_ok=True)
        return json.dumps({"Dir": str(module)})

    def _pools(self, plain: list[str], options: dict[str, str], words: list[str]) -> str:
        del plain, options
        if "--check" not in words:
            self.world["pools_removed"] = True
        return ""


def options_of(words: list[str], name: str) -> str:
    """Return the value of an option that has one dash, as Terraform's have."""
    return next(word.partition("=")[2] for word in words if word.startswith(f"{name}="))


def has_targets(words: list[str]) -> bool:
    """Return whether a plan is about some resources only."""
    return any(word.startswith("-target=") for word in words)


def plan_changes(before: dict[str, Any], after: dict[str, Any], words: list[str]) -> list[dict[str, Any]]:
    """Return the plan as `terraform show -json` has it; another cluster is a replacement."""
    targets = [word.partition("=")[2] for word in words if word.startswith("-target=")]
    changes = {each: ["update"] for each in targets}
    if not targets:
        had = before.get("resources", [])
        changes = {each: ["no-op"] if each in had else ["create"] for each in after["resources"]}
        if CLUSTER in had and before["outputs"]["clusters"] != after["outputs"]["clusters"]:
            changes[CLUSTER] = ["delete", "create"]
    return [
        {
            "address": address,
            "type": address.split(".")[2],
            "change": {"actions": actions, "before": {"name": address.rpartition(".")[2]}},
        }
        for address, actions in changes.items()
    ]


def pull(address: str, outputs: dict[str, Any]) -> dict[str, Any]:
    """Return one resource as `terraform state pull` has it."""
    module, kind, name = address.rsplit(".", 2)
    attributes = {}
    if address == CLUSTER:
        _, project, _, location, _, cluster = outputs["clusters"]["environment"]["path"].split("/")
        attributes = {"project": project, "location": location, "name": cluster}
    return {
        "module": module,
        "mode": "managed",
        "type": kind,
        "name": name,
        "instances": [{"attributes": attributes}],
    }


def deploy(values: dict[str, Any]) -> dict[str, Any]:
    """Return outputs and resources as the root that these variables fit would have them."""
    project, name = values["project_id"], values["name"]
    served = values.get("clusters")
    outputs: dict[str, Any] = {}
    resources = ["module.provisioner.google_pubsub_topic.workload_events"]
    if served is None:
        served = {
            "environment": {
                "project": project,
                "location": values["region"],
                "name": values["cluster_name"],
                "endpoint": values.get("control_plane_access"),
            }
        }
        outputs["workload"] = {"namespace": "n", "kubernetes_account": "a", "google_service_account": ""}
        outputs["bucket_url"] = f"gs://{values['artifact_repository_bucket_name']}"
        resources += [CLUSTER, ARTIFACTS, *([IMAGES] if values.get("image_repository_name") else [])]
    paths = {
        key: f"projects/{each['project']}/locations/{each['location']}/clusters/{each['name']}"
        for key, each in served.items()
    }
    outputs |= {
        "clusters": {
            key: {
                "path": path,
                "endpoint": "https://127.0.0.1:1",
                "exporter_environment": {"TPU_PROVISIONER_CLUSTER": path},
                **({"ca_data": "LS0t"} if served[key].get("endpoint") == "private" else {}),
            }
            for key, path in paths.items()
        },
        "topics": {"workload_events": f"projects/{project}/topics/{name}-workload-events"},
        "subscriptions": {
            each: f"projects/{project}/subscriptions/{name}-{each}" for each in ("provision", "collect", "settle")
        },
        "scheduler_job": f"projects/{project}/locations/{values['region']}/jobs/{name}-sweep",
        "rbac_users": [f"{name}-{each}@{project}.iam.gserviceaccount.com" for each in FUNCTIONS],
        "exporter_principals": {project: "principal://x/subject/ns/tpu-provisioner/sa/tpu-provisioner-exporter"},
        "accounts": {each: f"{name}-{each}@{project}.iam.gserviceaccount.com" for each in FUNCTIONS},
    }
    return {"outputs": outputs, "resources": resources}


def main() -> int:
    """Be one of the stubs."""
    path = Path(os.environ[WORLD])
    world = read(path)
    program, words = sys.argv[1], sys.argv[2:]
    world["calls"].append([program, *words])
    code, said, complaint = 0, "", ""
    if len(world["calls"]) == world["fail_at"]:
        code, complaint = 1, world["fail_text"]
    else:
        try:
            said = Cloud(world).answer(program, words)
        except Gone as error:
            code, complaint = 1, str(error)
    path.write_text(json.dumps(world))
    sys.stdout.write(f"{said}\n" if said else "")
    sys.stderr.write(f"{complaint}\n" if complaint else "")
    return code


if __name__ == "__main__":
    sys.exit(main())
