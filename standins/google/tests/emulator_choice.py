"""Which way Google's emulator is had: installed beside gcloud, or as a container of an engine that
answers.

The variable TEST_PUBSUB_EMULATOR picks one on purpose. How each is started is in emulator_process.
"""

import os
import shutil
import subprocess
from enum import StrEnum
from pathlib import Path

VARIABLE = "TEST_PUBSUB_EMULATOR"
BELOW_SDK = "platform/pubsub-emulator/bin/cloud-pubsub-emulator"
PACKAGED_SDK = Path("/usr/lib/google-cloud-sdk")
REMEDY = (
    "either `gcloud components install pubsub-emulator` (or apt-get install google-cloud-cli-pubsub-emulator) and"
    " any Java runtime 11 or newer, or a Docker engine that can pull from gcr.io"
)


class Way(StrEnum):
    INSTALLED = "installed"
    CONTAINER = "container"


class EmulatorMissingError(RuntimeError):
    """Neither way, or not the one that was asked for, is open on this machine."""


def choose_way() -> Way:
    """Return the way that was asked for, else the installed emulator where there is one, else the
    container.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked and asked not in list(Way):
        raise ValueError(f"{VARIABLE}={asked}: must be one of {', '.join(Way)}, or empty for whichever is there")
    if asked in ("", Way.INSTALLED) and find_launcher() is not None:
        return Way.INSTALLED
    if asked in ("", Way.CONTAINER) and engine_answers():
        return Way.CONTAINER
    only = f" as {VARIABLE}={asked} asks for it" if asked else ""
    raise EmulatorMissingError(f"Google's Pub/Sub emulator is not to be had{only}; it needs {REMEDY}")


def find_launcher() -> Path | None:
    """Return the installed emulator's launcher, if it and the java that it starts are there."""
    if shutil.which("java") is None:
        return None
    gcloud = shutil.which("gcloud")
    parents = [*list(Path(gcloud).resolve().parents)[1:3], PACKAGED_SDK] if gcloud else [PACKAGED_SDK]
    return next((path for parent in parents if (path := parent / BELOW_SDK).exists()), None)


def engine_answers() -> bool:
    """Return whether there is a container engine that answers; whether it can pull shows when it
    does.
    """
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "version"], capture_output=True, timeout=30, check=False).returncode == 0
