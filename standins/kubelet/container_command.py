"""What a container's process is started with.

Command and environment, as a real kubelet takes them from a pod.

Pure. What is special here: all pods live on one address, so the name of every Service means that
address. Sources:
https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
and https://kubernetes.io/docs/concepts/workloads/pods/downward-api/.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]

POD_IP = "127.0.0.1"
TOKEN_FOLDER = "var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 -- a folder's name
"""Below the pod's folder; in a real container it is below the root."""
_SERVICE_NAME = re.compile(r"\b[a-z0-9-]+\.[a-z0-9-]+\.svc\.cluster\.local\b")
_VARIABLE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class NoValue(ValueError):
    """An environment variable whose source is not known here; the text names both."""


def environment_of(pod: Json, container: Json, *, image: Path, folder: Path, server: str) -> dict[str, str]:
    """Return the whole environment of a container.

    Args:
        pod: The pod.
        container: One of its containers.
        image: The folder that stands for the image.
        folder: The pod's own folder, which stands for the file system of its containers.
        server: The URL of the API server.

    Raises NoValue: a variable comes from something that is not served here.
    """
    address = urlsplit(server)
    port = str(address.port or 443)
    found = {
        "PATH": f"{image / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "HOSTNAME": pod["metadata"]["name"],
        "POD_FOLDER": str(folder),
        "KUBERNETES_SERVICE_HOST": str(address.hostname),
        "KUBERNETES_SERVICE_PORT": port,
        "KUBERNETES_SERVICE_PORT_HTTPS": port,
    }
    for variable in container.get("env", ()):
        name = variable["name"]
        if "valueFrom" in variable:
            found[name] = _from_source(pod, container, name, variable["valueFrom"])
        else:
            found[name] = _resolve(_expand(variable.get("value", ""), found))
    return found


def arguments_of(container: Json, environment: Mapping[str, str], image: Path) -> tuple[str, ...]:
    """Return the command line of a container: its own command, or else that of its image.

    Args:
        container: It.
        environment: Its variables.
        image: The folder that stands for its image, whose own command is ``bin/entrypoint``.

    Raises NoValue: neither has one.
    """
    entrypoint = image / "bin" / "entrypoint"
    command = container.get("command") or ([str(entrypoint)] if entrypoint.is_file() else [])
    if not command:
        raise NoValue(f"container {container['name']}: it has no command, and its image has no bin/entrypoint")
    parts = (*command, *container.get("args", ()))
    return tuple(_resolve(_expand(part, environment)) for part in parts)


def _expand(text: str, environment: Mapping[str, str]) -> str:
    """Replace ``$(NAME)``; what is not defined stays as it is, and ``$$`` is a dollar."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else environment.get(match[1], match[0])

    return _VARIABLE.sub(value, text)


def _resolve(text: str) -> str:
    return _SERVICE_NAME.sub(POD_IP, text)


def _from_source(pod: Json, container: Json, name: str, source: Json) -> str:
    if "fieldRef" in source:
        return _field(pod, name, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return _resource(container, name, source["resourceFieldRef"])
    raise NoValue(
        f"variable {name}: the source {', '.join(source)} is not served; valid: fieldRef, resourceFieldRef"
    )


def _field(pod: Json, name: str, path: str) -> str:
    metadata = pod["metadata"]
    keyed = _KEYED.fullmatch(path)
    if keyed:
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    fields = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": pod["spec"]["nodeName"],
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", "default"),
        "status.podIP": POD_IP,
        "status.hostIP": POD_IP,
    }
    if path not in fields:
        raise NoValue(f"variable {name}: the field {path} is not served; valid: {', '.join(fields)}")
    return str(fields[path])


def _resource(container: Json, name: str, reference: Json) -> str:
    kind, _, resource = reference["resource"].partition(".")
    quantity = container.get("resources", {}).get(kind, {}).get(resource)
    if quantity is None or not str(quantity).isdigit():
        raise NoValue(f"variable {name}: {kind} of {resource} is {quantity!r}; valid: a whole number")
    return str(quantity)
