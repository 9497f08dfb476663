"""The server process: a control plane, its ports file and kubeconfig, its log, and its end."""

import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from standins.controlplane.cache import Build, BuildBroken
from standins.controlplane.chart import ManifestBroken
from standins.controlplane.commands import Choices
from standins.controlplane.plane import ControlPlane, NotReady, ProcessDied, StartEnded
from standins.controlplane.recipe import RecipeBroken
from standins.kit.addresses import PortTaken, write_ports, write_private
from standins.kit.lifecycle import write_record

_LOOK_SECONDS = 0.1
_EXPECTED = (ProcessDied, NotReady, PortTaken, ManifestBroken, BuildBroken, RecipeBroken, httpx.HTTPError, OSError)
_AUTHORITY = "ca.crt"


@dataclass(frozen=True, slots=True)
class Outputs:
    """What is written for others, and what they want in the cluster."""

    ports_file: Path | None = None
    kubeconfig_file: Path | None = None
    folder: Path | None = None
    accounts_folder: Path | None = None
    """Gets, for each service account in `things`, ``NAME.kubeconfig`` and ``NAME.token``, and one
    ``ca.crt``."""
    things: list[dict[str, Any]] = field(default_factory=list)

    def forget(self) -> None:
        """Remove what says where the server is."""
        for path in (self.ports_file, self.kubeconfig_file, *self._account_files()):
            if path is not None:
                path.unlink(missing_ok=True)

    def write_accounts(self, plane: ControlPlane) -> None:
        """Write what the service accounts identify themselves by, if somebody wants it."""
        if self.accounts_folder is None:
            return
        write_private(self.accounts_folder / _AUTHORITY, plane.layout.authority.read_text(encoding="utf-8"))
        for namespace, name in self._accounts():
            plane.write_account_kubeconfig(self.accounts_folder / f"{name}.kubeconfig", namespace, name)
            plane.write_account_token(self.accounts_folder / f"{name}.token", namespace, name)

    def _accounts(self) -> list[tuple[str, str]]:
        found = [each["metadata"] for each in self.things if each["kind"] == "ServiceAccount"]
        return [(each["namespace"], each["name"]) for each in found]

    def _account_files(self) -> list[Path]:
        if self.accounts_folder is None:
            return []
        files = [f"{name}.{suffix}" for _, name in self._accounts() for suffix in ("kubeconfig", "token")]
        return [self.accounts_folder / name for name in (_AUTHORITY, *files)]


def serve_until(stopping: threading.Event, build: Build, choices: Choices, outputs: Outputs) -> bool:
    """Serve until the event is set.

    Return False when the control plane failed, which has then been logged.

    The ports file and the kubeconfig are removed at the start and at the end, so that nobody finds
    the address of a dead server.
    """
    outputs.forget()
    try:
        with ControlPlane(build, choices, folder=outputs.folder, say=write_record, stopping=stopping) as plane:
            plane.apply(outputs.things)
            outputs.write_accounts(plane)
            _announce(plane, outputs)
            while not stopping.wait(_LOOK_SECONDS):
                plane.check()
    except StartEnded as told:
        write_record("told to end before the start was over", waited_for=str(told))
    except _EXPECTED as error:
        sys.stderr.write(f"error: {error}\n")
        # Last: whoever started this process finds the whole reason in the last line of its log.
        write_record(str(error), "CRITICAL", kind=type(error).__name__)
        return False
    finally:
        outputs.forget()
    write_record("stopped")
    return True


def _announce(plane: ControlPlane, outputs: Outputs) -> None:
    if outputs.kubeconfig_file is not None:
        write_private(outputs.kubeconfig_file, plane.kubeconfig.read_text(encoding="utf-8"))
    write_record("listening", url=plane.url, logs=str(plane.layout.logs), processes=plane.processes)
    # Last: whoever waits for this file may rely on all else, the log included.
    write_ports(outputs.ports_file, {"url": plane.url})
