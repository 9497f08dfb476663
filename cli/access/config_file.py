"""The file in which a person keeps settings of the command: ``config set``, ``get``, ``list``.

It is TOML of one level, ``$XDG_CONFIG_HOME/tpu-provisioner/config.toml``. A variable of the
environment wins over it (https://specifications.freedesktop.org/basedir/latest/).
"""

from __future__ import annotations

import dataclasses
import json
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from cli.access.cli_settings import ZONE, OperatorSettings, read_environment
from cli.exit_codes import BadInput
from shared.core.errors import Misconfigured
from shared.core.settings import CLUSTER, Settings, matching
from shared.environment import name_variable
from terminal.wrong_arguments import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping

CHOICES = {
    "project": matching(r"[^/\s]+", "the ID of a project"),
    "cluster": matching(r"(projects/[^/\s]+/locations/[^/\s]+/clusters/)?[^/\s]+", f"a name, or {CLUSTER.text}"),
    "context": matching(r".+", "a context of the kubeconfig"),
    "zone": ZONE,
}
"""Keys that choose the cluster, with what is valid; all others are settings, named as their
variables in lower case."""
_SOME_CLUSTER = {name_variable("clusters"): '{"projects/p/locations/l/clusters/c": {"endpoint": "https://e"}}'}


def list_keys() -> list[str]:
    """Return every key that the file may have."""
    fields = [each.name for kind in (Settings, OperatorSettings) for each in dataclasses.fields(kind)]
    return [*CHOICES, *dict.fromkeys(each for each in fields if each not in CHOICES)]


def find_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the file, which may not exist."""
    home = Path(environ.get("HOME") or Path("~").expanduser())
    base = environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if Path(base).is_absolute() else home / ".config"
    return folder / "tpu-provisioner" / "config.toml"


def read_file(path: Path) -> dict[str, str]:
    """Return what the file has; nothing if it does not exist.

    Raises:
        BadInput: it cannot be read, or has an unknown key or a value that is no text.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}; valid: a readable file, or none") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f'{path}: is not valid TOML; valid: lines of the form key = "value"') from error
    for key, value in found.items():
        check_key(key, where=f"{path}: ")
        if not isinstance(value, str):
            raise BadInput(f'{path}: {key}: is not a text (got {value!r:.60}); valid: {key} = "value"')
    return found


def write_file(path: Path, values: Mapping[str, str]) -> None:
    """Write the file whole, readable by its owner only.

    Raises:
        BadInput: it cannot be written.
    """
    text = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in sorted(values.items()))
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        part.replace(path)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}; valid: a folder of your own") from error


def check_key(key: str, *, where: str = "") -> None:
    """Accept a key that the file may have.

    Raises:
        BadInput: it names the near key.
    """
    keys = list_keys()
    if key in keys:
        return
    word = key.lower().removeprefix(name_variable("").lower())
    raise BadInput(f"{where}{key!r:.80} is not a key; {suggest(word, keys)}")


def check_value(key: str, value: str) -> None:
    """Accept a value that the commands accept.

    Raises:
        BadInput: it says what is valid.
    """
    if not value.isprintable():
        raise BadInput(f"{key}: is not one line of text (got {value!r:.80}); valid: printable characters")
    if key in CHOICES:
        if not value:
            raise BadInput(f"{key}: is empty; valid: a name, or config unset {key}")
        if not CHOICES[key].accepts(value):
            raise BadInput(f"{key}: is not valid (got {value!r:.80}); valid: {CHOICES[key].text}")
        return
    try:
        read_environment({**_SOME_CLUSTER, name_variable(key): value})
    except Misconfigured as error:
        mine = [each for each in error.problems if each.startswith(name_variable(key))]
        if mine:
            raise BadInput(mine[0]) from error
