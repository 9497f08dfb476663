"""Reads Terraform configurations as data (python-hcl2), for rules that need no `terraform`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import hcl2

ROOT = Path(__file__).resolve().parents[2]
TERRAFORM = ROOT / "infra/terraform"
ARCHIVE_MODULE = "modules/functions_archive"  # the one module of the provider hashicorp/archive
CONFIGURATIONS = ("modules/environment", "modules/provisioner", ".")
"""The modules of the provider hashicorp/google and the root, by their folders."""
Body = dict[str, Any]
_PLAIN = hcl2.SerializationOptions(
    with_comments=False, explicit_blocks=False, preserve_heredocs=False, strip_string_quotes=True
)
"""Texts without quotes, expressions as ``${…}``, blocks as lists."""


@dataclass(frozen=True)
class Block:
    """One labelled block: ``resource "google_pubsub_topic" "events"``."""

    kind: str  # ``resource``, ``data``, ``module``, ``variable``, ``output``, ``provider``
    type: str  # the resource's type; empty for blocks with one label
    name: str
    body: Body = field(repr=False)

    @property
    def address(self) -> str:
        """Return ``type.name``, as Terraform says it within the module."""
        prefix = "data." if self.kind == "data" else ""
        return f"{prefix}{self.type}.{self.name}" if self.type else f"{self.kind}.{self.name}"

    def blocks(self, name: str) -> list[Body]:
        """Return the nested blocks of a name, those made by ``dynamic`` too."""
        found = list(self.body.get(name, ()))
        for dynamic in self.body.get("dynamic", ()):
            found += [body for label, each in dynamic.items() if label == name for body in each.get("content", ())]
        return found


@dataclass(frozen=True)
class Configuration:
    """All ``*.tf`` files of one folder."""

    blocks: tuple[Block, ...]
    locals: Body

    def of(self, kind: str, *types: str) -> list[Block]:
        """Return the blocks of a kind, and of some types when any are named."""
        return [each for each in self.blocks if each.kind == kind and (not types or each.type in types)]

    def strings(self) -> Iterator[str]:
        """Yield every text of every block, expressions as they are written."""
        for block in self.blocks:
            yield from list_texts(block.body)
        yield from list_texts(self.locals)


@cache
def read_configuration(folder: Path) -> Configuration:
    """Return the parsed ``*.tf`` files of a folder."""
    blocks: list[Block] = []
    values: Body = {}
    for path in sorted(folder.glob("*.tf")):
        parsed = hcl2.loads(path.read_text(encoding="utf-8"), serialization_options=_PLAIN)
        for each in parsed.get("locals", []):
            values |= each
        for kind in ("resource", "data"):
            for type_, named in _list_items(parsed, kind):
                blocks += [Block(kind, type_, name, body) for name, body in named.items()]
        for kind in ("module", "variable", "output", "provider"):
            blocks += [Block(kind, "", name, body) for name, body in _list_items(parsed, kind)]
    return Configuration(tuple(blocks), values)


def _list_items(parsed: Body, kind: str) -> Iterator[tuple[str, Body]]:
    """Yield the labels and bodies of a file's blocks of a kind."""
    for labelled in parsed.get(kind, []):
        yield from labelled.items()


def list_texts(value: Any) -> Iterator[str]:
    """Yield every text of a value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield str(key)
            yield from list_texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from list_texts(each)
