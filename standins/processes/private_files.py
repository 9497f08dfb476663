"""Files that tell others where a server is.

Readable by this user only, and never seen half-written.
"""

import json
import secrets
from collections.abc import Mapping
from pathlib import Path

import typer


class NotWritten(OSError):
    """A file cannot be written; the text says which, why, and what is valid."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be written ({error.strerror}); valid: a file that this user may write")


def check_writable(path: Path | None) -> Path | None:
    """Return the path that an option names, to which `write_private` will write later.

    It is the option's callback, so that a server does not start for nobody to find.

    Raises typer.BadParameter: no file can be written there.
    """
    if path is not None:
        try:
            if path.is_dir():
                raise IsADirectoryError(None, "it is a folder")
            _make_draft(path).unlink()
        except OSError as error:
            raise typer.BadParameter(str(NotWritten(path, error))) from error
    return path


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read, so that a reader sees all of it or nothing.

    Raises NotWritten: it cannot be written.
    """
    try:
        draft = _make_draft(path)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise NotWritten(path, error) from error


def write_ports(path: Path | None, addresses: Mapping[str, str]) -> None:
    """Write a ports file, if one was asked for: the addresses of a server that listens, as JSON."""
    if path is not None:
        write_private(path, json.dumps(dict(addresses)) + "\n")


def _make_draft(path: Path) -> Path:
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    draft.touch(mode=0o600)
    return draft
