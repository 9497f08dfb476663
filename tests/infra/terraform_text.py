"""Reads Terraform configurations as data (python-hcl2), for rules that need no `terraform`."""

import re
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
_TYPED, _UNLABELLED = ("resource", "data"), ("locals", "terraform")
"""Blocks with a type before their name, and those without a name."""


@dataclass(frozen=True)
class Block:
    """One labelled block: ``resource "google_pubsub_topic" "events"``."""

    kind: str  # ``resource``, ``data``, ``module``, ``variable``, ``output``, ``provider``
    type: str  # the resource's type; empty for blocks with one label
    name: str
    body: Body = field(repr=False)

    @property
    def address(self) -> str:
        """Return what Terraform calls it within the module: ``type.name``, ``data.type.name``."""
        return ".".join(filter(None, (self.kind * (self.kind != "resource"), self.type, self.name)))


@dataclass(frozen=True)
class Configuration:
    """All ``*.tf`` files of one folder."""

    text: str  # without comments
    blocks: tuple[Block, ...]
    locals: Body

    def of(self, kind: str, *types: str) -> list[Block]:
        """Return the blocks of a kind, and of some types when any are named."""
        return [each for each in self.blocks if each.kind == kind and (not types or each.type in types)]


@cache
def read_configuration(folder: Path) -> Configuration:
    """Return the parsed ``*.tf`` files of a folder."""
    paths = sorted(folder.glob("*.tf"))
    texts = [re.sub(r"^ *#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE) for path in paths]
    files = [hcl2.loads(text, serialization_options=_PLAIN) for text in texts]
    values = {name: value for each in files for some in each.get("locals", ()) for name, value in some.items()}
    blocks = (block for each in files for kind in each for block in _list_blocks(kind, each[kind]))
    return Configuration("\n".join(texts), tuple(blocks), values)


def _list_blocks(kind: str, labelled: list[Body]) -> Iterator[Block]:
    for first, body in (item for each in labelled for item in each.items()):
        if kind in _TYPED:
            yield from (Block(kind, first, name, own) for name, own in body.items())
        elif kind not in _UNLABELLED:
            yield Block(kind, "", first, body)
