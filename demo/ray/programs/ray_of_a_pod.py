"""The program `ray` of a container without a container: it starts the installed Ray.

Run by Ray's interpreter. What a pod has and a process has not is made up for here, and nothing else
is changed: a folder of its own for /tmp/ray, the account's token at /var/run/secrets, an address
and ports of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FOLDER = os.environ["POD_FOLDER"]
OWN_PORTS = (
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "metrics-export-port",
    "runtime-env-agent-port",
)
"""KubeRay gives every pod the same, and on one address only free ones will do. A number, not the 0
that lets Ray choose: for what it chooses itself it waits half a minute, and breaks off."""
ANY_PORTS = ("min-worker-port", "max-worker-port")
"""A range that every node begins from its start, unless it is 0."""
OWN_TEMPORARY_FOLDER = f"--temp-dir={FOLDER}/ray"
"""Ray would take the head's, where raylets that start in one moment choose one name for their
sockets."""
PATIENCE = {
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "600",
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_health_check_timeout_ms": "60000",
    "RAY_health_check_failure_threshold": "30",
    "RAY_gcs_server_request_timeout_seconds": "300",
}
"""Half a dozen Ray nodes on one machine may take minutes for what a machine of their own does in
seconds."""
START_SECONDS_MAX = 180.0
ERROR_CHARACTERS = 2000
os.environ |= PATIENCE | {
    "RAY_TMPDIR": FOLDER,
    "RAY_USAGE_STATS_ENABLED": "0",
    # A worker process is started when there is work for it, not one per CPU at once.
    "RAY_enable_worker_prestart": "false",
}

from ray._private import services  # noqa: E402 -- after the environment, which it reads
from ray.scripts.scripts import main  # noqa: E402

turn = contextlib.ExitStack()
"""Until it is closed, no other node of Ray starts on this machine."""


def wait_for_turn() -> None:
    """Wait until no other node is starting.

    A raylet dies if the agents that it starts do not answer within half a minute, a bound that
    cannot be set, and four at once on a busy machine do not.
    """
    lock = Path(tempfile.gettempdir(), f"ray-of-a-pod-{os.getuid()}.lock")
    fcntl.flock(turn.enter_context(lock.open("w", encoding="utf-8")), fcntl.LOCK_EX)


def own_address(_address: str | None = None) -> str:
    """Return the address of every pod here."""
    return "127.0.0.1"


def get_node(address: str, node: str) -> Any:
    """Return what the head knows of a node that has just started. Ray itself waits 30 seconds."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            found = get_node_now(address, node)
        except RuntimeError:
            if has_lost_a_process():
                show_errors()
                sys.exit(1)
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            turn.close()
            return found


def has_lost_a_process() -> bool:
    """Return whether a process that this one started has ended; then waiting does not help."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def show_errors() -> None:
    """Write the last words of raylets into the container's log; the pod's folder is removed."""
    for log in sorted(Path(FOLDER).glob("ray/session_2*/logs/raylet*.err")):
        sys.stderr.write(f"{log.name}: {log.read_text(errors='replace')[:ERROR_CHARACTERS]}\n")


def free_ports(count: int) -> list[int]:
    """Return different ports that are free at this moment."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((own_address(), 0))
        return [each.getsockname()[1] for each in sockets]


def arguments(given: list[str]) -> list[str]:
    """Return the arguments with ports of this pod's own instead of those that every pod gets."""
    if given[:1] == ["start"]:
        kept = [
            each for each in given if each.removeprefix("--").partition("=")[0] not in (*OWN_PORTS, *ANY_PORTS)
        ]
        own = [f"--{name}={port}" for name, port in zip(OWN_PORTS, free_ports(len(OWN_PORTS)), strict=True)]
        return [*kept, *own, *(f"--{name}=0" for name in ANY_PORTS), OWN_TEMPORARY_FOLDER]
    if given[:1] == ["kuberay-autoscaler"] and (address := os.environ.get("GCS_ADDRESS")):
        return [*given, f"--gcs-address={address}"]
    return given


def use_own_token() -> None:
    """Let the autoscaler find the token of its account, which Ray looks for below the root."""
    from ray.autoscaler._private.kuberay import node_provider  # noqa: PLC0415 -- slow, and for one command only

    for name in ("IN_CLUSTER_TOKEN_PATH", "IN_CLUSTER_CA_CERT_PATH"):
        setattr(node_provider, name, FOLDER + getattr(node_provider, name))


services.node_ip_address_from_perspective = own_address
get_node_now, services.get_node = services.get_node, get_node
if sys.argv[1:2] == ["kuberay-autoscaler"]:
    use_own_token()
if sys.argv[1:2] == ["start"]:
    wait_for_turn()
sys.argv = [sys.argv[0], *arguments(sys.argv[1:])]
sys.exit(main())
