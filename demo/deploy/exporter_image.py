"""What stands for the exporter's image: this project's own exporter, started as a container is.

The kubelet stand-in runs it for each pod of the rendered Deployment, with the pod's variables and
the token of its ServiceAccount. What is special on this machine: all pods share one address, so
each takes a port of its own, and the pod's files are not below the root.
"""

import os
import shlex
import sys
from pathlib import Path

from demo.stack.layout import PROJECT_ROOT
from standins.kubelet.container_command import TOKEN_FOLDER
from standins.processes.free_ports import HOST, draw_ports
from standins.processes.kubeconfig import render_kubeconfig
from standins.processes.private_files import write_ports, write_private


def make_image(folder: Path, *, ports: Path, pubsub_grpc: str) -> Path:
    """Write the image, and return its folder.

    Args:
        folder: Where; made if it is absent.
        ports: The folder that gets a ports file for each pod, ``POD.json``.
        pubsub_grpc: ``host:port`` of the broker.
    """
    program = folder / "bin" / "entrypoint"
    program.parent.mkdir(parents=True, exist_ok=True)
    words = (sys.executable, "-m", "demo.deploy.exporter_image", str(ports), pubsub_grpc)
    program.write_text(
        f"#!/bin/sh\ncd {shlex.quote(str(PROJECT_ROOT))} && exec {shlex.join(words)}\n", encoding="utf-8"
    )
    program.chmod(0o755)
    return folder


def main(ports: str, pubsub_grpc: str) -> None:
    """Become the exporter of the pod whose variables this process has."""
    given = os.environ
    folder = Path(given["POD_FOLDER"])
    account = folder / TOKEN_FOLDER
    kubeconfig = render_kubeconfig(
        f"https://{given['KUBERNETES_SERVICE_HOST']}:{given['KUBERNETES_SERVICE_PORT']}",
        authority=(account / "ca.crt").read_bytes(),
        token=(account / "token").read_text(encoding="utf-8"),
        namespace=(account / "namespace").read_text(encoding="utf-8"),
    )
    write_private(folder / "kubeconfig", kubeconfig)
    (port,) = draw_ports(1)
    write_ports(Path(ports) / f"{given['HOSTNAME']}.json", {"url": f"http://{HOST}:{port}"})
    own = {
        "TPU_PROVISIONER_KUBECONFIG": str(folder / "kubeconfig"),
        "TPU_PROVISIONER_HTTP_PORT": str(port),
        "PUBSUB_EMULATOR_HOST": pubsub_grpc,
    }
    os.execve(sys.executable, (sys.executable, "-m", "exporter"), {**given, **own})  # noqa: S606 -- no shell is wanted


if __name__ == "__main__":
    main(*sys.argv[1:])
