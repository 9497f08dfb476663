"""Paths: which kind, namespace, object and subresource a URL is about.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris
"""

from dataclasses import dataclass

from standins.cluster.store.errors import path_not_found
from standins.cluster.store.kinds import BY_PATH, Kind


@dataclass(frozen=True)
class Target:
    """What a URL is about; without a name, a whole list."""

    kind: Kind
    namespace: str | None
    name: str
    subresource: str


def read_path(path: str) -> Target:
    """Return the target of a path. Raises ApiError: 404, when no kind is served there."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:  # noqa: PLR2004  /api/v1/<resource>
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:  # noqa: PLR2004  /apis/<group>/<version>/<resource>
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise path_not_found()
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) > 2 and (group, version, rest[2]) in BY_PATH:  # noqa: PLR2004  namespaces/<ns>/<resource>
        namespace, rest = rest[1], rest[2:]
    kind = BY_PATH.get((group, version, rest[0]))
    if kind is None or len(rest) > 3 or (namespace is not None and not kind.namespaced):  # noqa: PLR2004  <resource>/<name>/<sub>
        raise path_not_found()
    name, subresource = (*rest[1:], "", "")[:2]
    if name and kind.namespaced and namespace is None:
        raise path_not_found()
    if subresource and not _has(kind, subresource):
        raise path_not_found()
    return Target(kind, namespace, name, subresource)


def _has(kind: Kind, subresource: str) -> bool:
    return subresource == "status" and kind.has_status
