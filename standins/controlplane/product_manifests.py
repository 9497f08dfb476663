"""Kubernetes objects from YAML: single files, and the folders of a module.

Pure but for reading files.
"""

from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

# The C parser where PyYAML has it: JobSet's definition is half a megabyte, two seconds for the
# other one.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ManifestBroken(Exception):
    """A manifest cannot be used; the text names the file and what is wrong."""


def read_objects(path: Path) -> list[Json]:
    """Return the objects of one YAML file in their order.

    Raises ManifestBroken: it cannot be read, or holds something that is no Kubernetes object.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ManifestBroken(f"{path}: {error}") from error
    return parse_objects(text, path)


def parse_objects(text: str, path: Path) -> list[Json]:
    """Return the objects of a text that a file holds.

    Raises ManifestBroken: it is no YAML, or holds something that is no Kubernetes object.
    """
    try:
        objects = [each for each in yaml.load_all(text, Loader=_LOADER) if each is not None]
    except yaml.YAMLError as error:
        raise ManifestBroken(f"{path}: {error}") from error
    for each in objects:
        if not isinstance(each, dict) or not {"apiVersion", "kind", "metadata"} <= each.keys():
            raise ManifestBroken(
                f"{path}: not a Kubernetes object with apiVersion, kind and metadata: {each!r:.80}"
            )
    return objects


def read_folder(folder: Path) -> list[Json]:
    """Return the objects of every YAML file in a folder, without what only kustomize reads.

    Raises ManifestBroken: a file cannot be used, or there is none.
    """
    paths = [path for path in sorted(folder.glob("*.yaml")) if not path.name.startswith("kustomiz")]
    if not paths:
        raise ManifestBroken(f"{folder}: no YAML files")
    return [each for path in paths for each in read_objects(path)]
