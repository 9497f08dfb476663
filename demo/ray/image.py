"""The folder that replaces the image `rayproject/ray`: one program, `ray`."""

import shlex
from pathlib import Path

from demo.ray.installing import Installation, ray_version
from demo.ray.ray_manifests import image_name

PROGRAMS = Path(__file__).with_name("programs")


def write_image(folder: Path, ray: Installation) -> str:
    """Write the image's folder, and return what the kubelet is told of it: name and folder."""
    program = folder / "bin" / "ray"
    program.parent.mkdir(parents=True, exist_ok=True)
    command = shlex.join([str(ray.python), str(PROGRAMS / "ray_of_a_pod.py")])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return f"{image_name(ray_version())}={folder}"
