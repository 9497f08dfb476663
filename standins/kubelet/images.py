"""The images whose containers run as real processes.

A folder stands for what an image would have brought along.

Pure. Containers of every other image are simulated (`standins.kubelet.run_plan`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class BadImage(ValueError):
    """An option that names no image and folder; the text says which."""


class Images:
    """The images by name, and the folder of each, in which `bin` comes first on the path."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders = folders

    @classmethod
    def from_options(cls, options: Iterable[str]) -> Images:
        """Return the images of options like ``rayproject/ray:2.60.0=/a/folder``.

        Raises BadImage: an option has another form, or its folder has no `bin`.
        """
        folders: dict[str, Path] = {}
        for option in options:
            name, _, folder = option.rpartition("=")
            if not name or not (Path(folder) / "bin").is_dir():
                raise BadImage(
                    f"--image: {option!r} is not valid; valid: NAME=FOLDER, of a folder with a bin in it"
                )
            folders[name] = Path(folder)
        return cls(folders)

    def has_all_of(self, pod: Json) -> bool:
        """Return whether every container of a pod can run as a process."""
        spec = pod["spec"]
        containers = [*spec.get("initContainers", ()), *spec["containers"]]
        return all(each.get("image") in self._folders for each in containers)

    def folder_of(self, container: Json) -> Path:
        """Return the folder of a container's image."""
        return self._folders[container["image"]]
