"""A registry and an engine of the tests' own, in a network of their own, which end with them.

Every registry that the build names is this one there, by its own name and by TLS. The network has
no way out, so what the image is built from is put there first.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from standins.controlplane.certificates import write_controller_credentials
from standins.processes.child import Command
from standins.processes.stand_ins import running
from tests.image.image_engine import PACKAGES, Engine, make_base, unpack
from tests.image.image_text import ROOT, read_defaults
from tests.image.own_engine import OWN_NETWORK, run_engine
from tests.program_runs import run_program

GOOGLES, RELEASES = "us-east5-docker.pkg.dev", "ghcr.io"
_HOSTS = (GOOGLES, RELEASES, "registry-1.docker.io", "gcr.io")
_BEGIN = """
import fcntl, os, socket, struct, subprocess, sys
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS: up
subprocess.run(["mount", "--bind", sys.argv[1], "/etc/hosts"], check=True)
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class OwnRegistry:
    """Where it keeps what was pushed, and how programs get into its network."""

    folder: Path
    engine: Engine
    within: tuple[str, ...]
    """Before a program's words: it then runs in that network."""

    @property
    def environ(self) -> dict[str, str]:
        """That of a program which talks to the engine, and to the registries itself."""
        own = {"DOCKER_CONFIG": str(self.folder / "docker"), "DOCKER_HOST": self.engine.host}
        return os.environ | own | {"SSL_CERT_FILE": str(self.folder / "tls/ca.crt")}

    def docker(self, *words: str) -> str:
        """Return what a docker command in that network prints; it must succeed."""
        return run_program(*self.within, "docker", *words, env=self.environ, succeeds=True).stdout

    def list_tags(self, repository: str) -> dict[str, str]:
        """Return the tags of a repository, each with its digest."""
        tags = self.folder / f"stored/docker/registry/v2/repositories/{repository}/_manifests/tags"
        return {each.name: (each / "current/link").read_text() for each in tags.iterdir()}


@contextmanager
def run_registry(folder: Path) -> Iterator[OwnRegistry]:
    """Run both, with the bases of the image in both."""
    programs = folder / "programs"
    unpack("docker-registry,docker-buildx", programs)  # nothing is installed
    plugins = folder / "docker/cli-plugins"
    plugins.mkdir(parents=True)
    (plugins / "docker-buildx").symlink_to(programs / "usr/libexec/docker/cli-plugins/docker-buildx")
    tls, hosts, settings = folder / "tls", folder / "hosts", folder / "registry.json"
    write_controller_credentials(tls, authority_name="registries", host_names=_HOSTS)
    hosts.write_text(f"127.0.0.1 localhost {' '.join(_HOSTS)}\n")
    served = {"addr": "127.0.0.1:443", "tls": {"certificate": str(tls / "tls.crt"), "key": str(tls / "tls.key")}}
    storage = {"filesystem": {"rootdirectory": str(folder / "stored")}}
    settings.write_text(json.dumps({"version": 0.1, "storage": storage, "http": served}))
    trusting = f"SSL_CERT_FILE={tls / 'ca.crt'}"
    network = ("env", trusting, *OWN_NETWORK, sys.executable, "-c", _BEGIN, str(hosts))
    with run_engine(folder, *network) as host:
        within = ("nsenter", f"--target={(folder / 'pid').read_text()}", "--net", "--mount")
        words = (*within, str(programs / "usr/bin/docker-registry"), "serve", str(settings))
        registry = OwnRegistry(folder, Engine(host), within)
        probe = (*within, "bash", "-c", ": </dev/tcp/127.0.0.1/443")
        serving = Command(name="docker-registry", arguments=words, folder=ROOT)
        with running(serving, folder, lambda: run_program(*probe).returncode == 0):
            for name in PACKAGES:
                registry.docker("push", make_base(registry.engine, name, folder, read_defaults()[name]))
            yield registry
