"""Kubernetes objects from YAML files: the folders of a module, and kustomize folders of ours.

Of kustomize (https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/) only what our
manifests use is understood: `resources`. Anything else is refused, because leaving it out would
apply something else than what is deployed. Pure but for reading files.
"""

from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

KUSTOMIZATION = "kustomization.yaml"
# The C parser where PyYAML has it: JobSet's definition is half a megabyte, two seconds for the
# other one.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNDERSTOOD = {"apiVersion", "kind", "resources"}


class ManifestBroken(Exception):
    """A manifest cannot be used; the text names the file and what is wrong."""


def read_objects(path: Path) -> list[Json]:
    """Return the objects of one YAML file in their order.

    Raises ManifestBroken: it cannot be read, or holds something that is no Kubernetes object.
    """
    try:
        found = [
            each for each in yaml.load_all(path.read_text(encoding="utf-8"), Loader=_LOADER) if each is not None
        ]
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ManifestBroken(f"{path}: {error}") from error
    for each in found:
        if not isinstance(each, dict) or not {"apiVersion", "kind", "metadata"} <= each.keys():
            raise ManifestBroken(
                f"{path}: not a Kubernetes object with apiVersion, kind and metadata: {each!r:.80}"
            )
    return found


def read_folder(folder: Path) -> list[Json]:
    """Return the objects of every YAML file in a folder, without what only kustomize reads.

    Raises ManifestBroken: a file cannot be used, or there is none.
    """
    paths = [path for path in sorted(folder.glob("*.yaml")) if not path.name.startswith("kustomiz")]
    if not paths:
        raise ManifestBroken(f"{folder}: no YAML files")
    return [each for path in paths for each in read_objects(path)]


def read_kustomization(folder: Path) -> list[Json]:
    """Return the objects of a kustomize folder, its bases first.

    Raises ManifestBroken: the folder asks for more than `resources`, or a file cannot be used.
    """
    path = folder / KUSTOMIZATION
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 -- a safe one, above
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ManifestBroken(f"{path}: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("resources"), list):
        raise ManifestBroken(f"{path}: no list of resources")
    if unknown := sorted(content.keys() - _UNDERSTOOD):
        raise ManifestBroken(f"{path}: {', '.join(unknown)} is not understood here; valid: resources")
    objects: list[Json] = []
    for name in content["resources"]:
        entry = folder / str(name)
        objects += read_kustomization(entry) if entry.is_dir() else read_objects(entry)
    return objects
