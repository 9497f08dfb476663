"""The real control plane as the cluster of a deployment.

Functions call it with tokens of their Google accounts, and everyone has the rights of the rendered
manifests and no others. No one but the stand-ins of nodes is an administrator.
"""

import json
import shutil
import subprocess
from pathlib import Path

from demo.deploy.pod_monitoring import DEFINITION
from demo.stack.layout import Layout
from demo.stack.readiness import NotReady, answers, read_ports, wait_until
from standins.controlplane.api_client import open_api
from standins.controlplane.api_objects import apply
from standins.controlplane.probes import are_served
from standins.processes.child import describe_last_words

_SECONDS_MAX = 60.0
_LAST_LINES = 4
_REFUSED = (401, 403)
_EXPORTER = "/apis/apps/v1/namespaces/tpu-provisioner/deployments/tpu-provisioner-exporter"


def install_manifests(layout: Layout, rendered: Path) -> None:
    """Apply a folder of infra/build/render_exporter.py, by the commands of the build.

    They are in infra/build/provision-09-exporter.sh.

    Raises NotReady: kubectl or the API server refused something.
    """
    with open_api(layout.kubeconfig) as api:
        apply(api, [DEFINITION])
        wait_until("PodMonitoring", lambda: are_served(api, [DEFINITION]), seconds=_SECONDS_MAX)
    objects = _run_kubectl("kustomize", str(rendered))
    place = (f"--kubeconfig={layout.kubeconfig}", f"--cache-dir={layout.home / 'kubectl'}")
    how = ("--server-side", "--force-conflicts", "--field-manager=tpu-provisioner-build")
    _run_kubectl(*place, "apply", *how, "--filename=-", text=objects)


def are_exporters_ready(layout: Layout) -> bool:
    """Return whether as many pods of the exporter as there shall be say that they are ready.

    They are asked themselves, because the kubelet stand-in runs no probes.
    """
    with open_api(layout.kubeconfig) as api:
        wanted = api.get(_EXPORTER).json()["spec"]["replicas"]
    found = [read_ports(path) for path in exporter_ports(layout).glob("*.json")]
    return sum(answers(f"{each['url']}/readyz") for each in found) >= int(wanted)


def describe_exporters(layout: Layout) -> str:
    """Return the last words of each pod of the exporter."""
    logs = sorted(layout.pod_logs.glob("*.exporter.log"))
    return "; ".join(describe_last_words(each, _LAST_LINES) for each in logs) or "there is no pod of it"


def exporter_ports(layout: Layout) -> Path:
    """Return the folder with a ports file for each pod of the exporter."""
    return layout.ports / "exporter"


def list_refusals(journal: Path, hosts: set[str]) -> list[str]:
    """Return what the API server has refused, each text once.

    Args:
        journal: Of the mock that the calls pass through.
        hosts: The cluster's.
    """
    if not journal.exists():
        return []
    lines = journal.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()
    likely = (line for line in lines if any(f'"code":{code}' in line for code in _REFUSED))
    found = [each for each in map(json.loads, likely) if each["host"] in hosts and each["code"] in _REFUSED]
    return list(dict.fromkeys(_describe(each) for each in found))


def _describe(call: dict[str, object]) -> str:
    answer = call.get("answer")
    message = answer.get("message") if isinstance(answer, dict) else answer
    return f"{call['method']} is refused with {call['code']}: {message}"


def _run_kubectl(*words: str, text: str = "") -> str:
    command = (shutil.which("kubectl") or "kubectl", *words)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise NotReady(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout
