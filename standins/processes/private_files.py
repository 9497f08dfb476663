"""Files that tell others where a server is.

Readable by this user only, and never seen half-written.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read, so that a reader sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    draft.touch(mode=0o600)
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def write_ports(path: Path | None, addresses: Mapping[str, str]) -> None:
    """Write a ports file, if one was asked for: the addresses of a server that listens, as JSON."""
    if path is not None:
        write_private(path, json.dumps(dict(addresses)) + "\n")
