"""The exporter's image, really built, and run under the very constraints that its pod has.

The constraints are read from the Deployment. The kubelet's part is Docker's here; the rest is the
same kernel.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from shared.edges.connection import Connection
from shared.edges.kubernetes import KubernetesApi, Stored
from standins.google.tests.fakegke_worlds import serving_google
from standins.kit.processes import running_stand_in
from tests.infra.chart import CONTAINER, ENVIRONMENT, NAMESPACE, POD, ROOT, TOPIC
from tests.loop.bodies import build_workload
from tests.loop.cloud import wait_for
from tests.program_runs import run_program

pytestmark = [pytest.mark.image, pytest.mark.timeout(300)]

Json = dict[str, Any]

PODS = 3_000
SIZE_MIB_MAX = 280  # what our layers may add to the base
LABELS = {"jobset.sigs.k8s.io/job-key": "k", "batch.kubernetes.io/job-completion-index": "0"}
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
IMAGE = "tpu-provisioner-exporter-under-test"
# The image of the side-car that cleans up after a killed test may be unavailable; ours end with it.
testcontainers_config.ryuk_disabled = True


def docker(*arguments: str) -> str:
    """Return what a docker command prints; it must succeed."""
    # The older builder is in every engine; the newer one is a plugin that may be absent.
    environ = os.environ | {"DOCKER_BUILDKIT": "0"}
    return run_program("docker", *arguments, env=environ, seconds=150, succeeds=True).stdout


@pytest.fixture(scope="session")
def image() -> str:
    """The image, built as the deployment does."""
    docker("build", "--network=host", f"--file={ROOT / 'exporter/Dockerfile'}", f"--tag={IMAGE}", str(ROOT))
    return IMAGE


def constrained(image: str, environment: dict[str, str]) -> DockerContainer:
    """The container with what the pod's spec allows it, and no more."""
    pod, own = POD["spec"], CONTAINER
    identity, rules = pod["securityContext"], own["securityContext"]
    memory = own["resources"]["limits"]["memory"].replace("Mi", "m")
    assert rules["allowPrivilegeEscalation"] is False
    container = DockerContainer(image).with_kwargs(
        user=f"{identity['runAsUser']}:{identity['runAsGroup']}",
        read_only=rules["readOnlyRootFilesystem"],
        cap_drop=rules["capabilities"]["drop"],
        security_opt=["no-new-privileges"],
        mem_limit=memory,
        memswap_limit=memory,
        network_mode="host",
    )
    for name, value in environment.items():
        container.with_env(name, value)
    return container


def records(container: DockerContainer) -> list[Json]:
    output = container.get_wrapped_container().logs().decode()
    return [json.loads(line) for line in output.splitlines()]


def bystander(number: int) -> Json:
    """A pod that the exporter sees and that is no demand, because a gate prevents scheduling."""
    words = {"kind": "Pod", "tpu": "", "metadata": {"labels": LABELS}}
    return build_workload(
        words | {"pod": {"schedulingGates": [{"name": "example.com/later"}]}}, f"bystander-{number:05}"
    )


def test_under_the_pods_constraints_it_reports_stays_small_and_ends_cleanly(image: str, tmp_path: Path) -> None:
    with serving_google(pubsub=True) as google, running_stand_in(tmp_path, "standins.cluster") as cluster:
        broker = google.ports
        httpx.put(f"{broker['rest']}/v1/{TOPIC}", trust_env=False).raise_for_status()
        api = KubernetesApi(Connection(url=cluster.addresses["url"]))
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}, Stored)
        for number in range(PODS):
            api.create("/api/v1/namespaces/default/pods", bystander(number), Stored)
        environment = ENVIRONMENT | {
            "TPU_PROVISIONER_ENDPOINT": cluster.addresses["url"],
            "PUBSUB_EMULATOR_HOST": broker["grpc"],
            "TPU_PROVISIONER_HTTP_PORT": "0",
        }
        with constrained(image, environment) as container:
            inside = container.get_wrapped_container()
            listening = wait_for("it to listen", lambda: of(container, "listening"))
            url = listening[0]["url"]
            wait_for("it to be ready", lambda: httpx.get(f"{url}/readyz", trust_env=False).is_success)
            api.create(JOBSETS, build_workload({"kind": "JobSet"}, "train"), Stored)

            subjects = wait_for("an event", lambda: published(broker["rest"]))
            assert subjects == ["namespaces/default/jobsets/train"]
            for path in ("/written", "/app/written"):
                refused = inside.exec_run(["python3", "-c", f"open({path!r}, 'w')"])
                assert b"Read-only file system" in refused.output
            used = inside.stats(stream=False)["memory_stats"]
            assert used["usage"] < used["limit"] == int(CONTAINER["resources"]["limits"]["memory"][:-2]) << 20

            began = time.monotonic()
            inside.stop(timeout=POD["spec"]["terminationGracePeriodSeconds"])
            assert time.monotonic() - began < POD["spec"]["terminationGracePeriodSeconds"] / 2
            inside.reload()
            assert (inside.attrs["State"]["ExitCode"], inside.attrs["State"]["OOMKilled"]) == (0, False)
            (ended,) = of(container, "ended")
            assert (ended["events_left_to_the_next_start"], ended["lease_released"]) == (0, True)
            assert [each for each in records(container) if each["severity"] not in ("DEBUG", "INFO")] == []
    sys.stdout.write(
        f"memory with {PODS} pods: {used['usage'] / 2**20:.0f} MiB of {used['limit'] / 2**20:.0f} MiB\n"
    )


def of(container: DockerContainer, message: str) -> list[Json]:
    return [each for each in records(container) if each["message"] == message]


def published(broker: str) -> list[str]:
    found = (
        httpx.get(f"{broker}/admin/messages", params={"topic": TOPIC}, trust_env=False).raise_for_status().json()
    )
    return [each["attributes"]["ce-subject"] for each in found["messages"]]


def test_our_layers_are_small(image: str) -> None:
    sizes = docker("history", "--human=false", "--format={{.Size}} {{.CreatedBy}}", image).splitlines()
    ours = sum(int(line.split()[0]) for line in sizes if "COPY" in line or "RUN" in line or "python3 -c" in line)

    sys.stdout.write(f"our layers: {ours / 2**20:.1f} MiB\n")
    assert 0 < ours < SIZE_MIB_MAX << 20
