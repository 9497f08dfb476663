"""Where the parts of a stack listen: the ports of the last start."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from standins.kit.addresses import draw_ports, is_free
from standins.kit.processes import Command

_PORT_MAX = 65_535
_OPTIONS = {"cluster": ("--port",), "google": ("--rest-port", "--grpc-port")}
"""Which options tell each stand-in its ports."""


def list_servers(*, without: str = "") -> list[str]:
    """Return a name for each port of the stand-ins, but for those of one."""
    return [f"{name} {option}" for name, options in _OPTIONS.items() if name != without for option in options]


def read_kept_ports(path: Path) -> dict[str, int]:
    """Return the kept ports that are free now, by name; none of a file that cannot be read."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(kept, dict):
        return {}
    ports = {name: port for name, port in kept.items() if isinstance(port, int) and 0 < port <= _PORT_MAX}
    return {name: port for name, port in ports.items() if is_free(port)}


def choose_ports(names: Iterable[str], kept: Mapping[str, int]) -> dict[str, int]:
    """Return a port for each name: the kept one, else one that is free now.

    Raises PortTaken: no free ones were found.
    """
    wanted = list(names)
    chosen = {name: kept[name] for name in wanted if name in kept}
    absent = [name for name in wanted if name not in chosen]
    drawn = (port for port in draw_ports(len(wanted)) if port not in chosen.values())
    return chosen | dict(zip(absent, drawn, strict=False))


def listen_on(command: Command, ports: Mapping[str, int]) -> Command:
    """Return the command of a stand-in that listens on those of the ports which are its own."""
    options = _OPTIONS[command.name]
    told = (f"{option}={ports[name]}" for option in options if (name := f"{command.name} {option}") in ports)
    return replace(command, arguments=(*command.arguments, *told))


def write_ports(path: Path, ports: Mapping[str, int]) -> None:
    """Keep the ports for the next start."""
    path.write_text(json.dumps(ports, indent=2) + "\n", encoding="utf-8")
