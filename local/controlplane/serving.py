"""The server process: a control plane, its ports file and kubeconfig, its log, and its end."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from local.controlplane.layout import PortTaken
from local.controlplane.manifests import ManifestBroken
from local.controlplane.plane import ControlPlane, NotReady, ProcessDied
from local.controlplane.users import write_private
from shared.core.errors import ProvisionerError

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from local.controlplane.cache import Build
    from local.controlplane.commands import Choices

_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Outputs:
    """What is written for others, and what they want in the cluster."""

    ports_file: Path | None = None
    kubeconfig_file: Path | None = None
    folder: Path | None = None
    things: list[dict[str, Any]] = field(default_factory=list)

    def forget(self) -> None:
        """Remove what says where the server is."""
        for path in (self.ports_file, self.kubeconfig_file):
            if path is not None:
                path.unlink(missing_ok=True)


def log(message: str, severity: str = "INFO", **fields: Any) -> None:
    """Write one log record as a line of JSON."""
    record = {"severity": severity, "message": message, "time": datetime.now(UTC).isoformat()} | fields
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def serve_until(ending: threading.Event, build: Build, choices: Choices, outputs: Outputs) -> bool:
    """Serve until the event is set; return False when the control plane failed, which has then been logged.

    The ports file and the kubeconfig are removed at the start and at the end, so that nobody finds the address of
    a dead server.
    """
    outputs.forget()
    try:
        with ControlPlane(build, choices, folder=outputs.folder, say=log) as plane:
            plane.apply(outputs.things)
            _announce(plane, outputs)
            while not ending.wait(_LOOK_SECONDS):
                plane.check()
    except (ProcessDied, NotReady, PortTaken, ManifestBroken, ProvisionerError, OSError) as error:
        log(str(error), "CRITICAL", kind=type(error).__name__)
        sys.stderr.write(f"error: {error}\n")
        return False
    finally:
        outputs.forget()
    log("stopped")
    return True


def _announce(plane: ControlPlane, outputs: Outputs) -> None:
    if outputs.kubeconfig_file is not None:
        write_private(outputs.kubeconfig_file, plane.kubeconfig.read_text(encoding="utf-8"))
    if outputs.ports_file is not None:
        write_private(outputs.ports_file, json.dumps({"url": plane.url}) + "\n")
    log("listening", url=plane.url, logs=str(plane.layout.logs), processes=plane.processes)
