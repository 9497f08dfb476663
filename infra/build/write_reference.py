"""Writes the pages of docs/reference from the code; a test compares the two.

Run as ``python -m infra.build.write_reference`` from the repository's root.
"""

from __future__ import annotations

import ast
import inspect
import re
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import msgspec

from cli.access.deployment import OperatorSettings
from exporter.exporter_settings import ExporterSettings
from shared.model import labels
from shared.settings import ClusterSettings, Settings, name_valid, name_variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/reference"
_ORIGIN = "`python -m infra.build.write_reference` writes this page from {};\ndo not edit it."
_SETTINGS = """Each setting is an environment variable. With Terraform, a setting of the functions is a key of the
variable `settings`: the name without the prefix, in small letters. A wrong or unknown variable
stops the start with an error that names it and what is valid."""
_LABELS = """These are all keys that the provisioner reads or writes. The kind of a workload adds the keys of
its controller ([kinds](../kinds.md))."""
_GROUP = re.compile(r"# --- (.+) ---")


def write_pages() -> dict[str, str]:
    """Return the text of each page, by its file name."""
    return {"settings.md": _write_settings(), "labels.md": _write_labels()}


def _write_settings() -> str:
    parts = ["# Settings", _ORIGIN.format("the classes of settings"), _SETTINGS]
    for title, note, kind in (
        ("Functions", "Both functions have the same settings.", Settings),
        ("One cluster", "These are the fields of each value of `TPU_PROVISIONER_CLUSTERS`.", ClusterSettings),
        ("Exporter", "The deployment of the exporter sets these.", ExporterSettings),
        ("Command", "`tpu-provisioner` reads these beside the settings of the functions.", OperatorSettings),
    ):
        rows = _list_settings(kind, variables=kind is not ClusterSettings)
        parts += [f"## {title}", note, _table(("setting", "default", "valid", "meaning"), rows)]
    return "\n\n".join(parts) + "\n"


def _list_settings(kind: type[Any], *, variables: bool) -> Iterator[tuple[str, ...]]:
    notes = _read_notes(kind)
    for field in msgspec.structs.fields(kind):
        name = name_variable(field.name) if variables else field.name
        yield f"`{name}`", _show_default(field), name_valid(field.type), notes[field.name]


def _show_default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = "" if field.default is msgspec.NODEFAULT else field.default
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"`{text.lower() if isinstance(value, bool) else text}`" if text else "empty"


def _read_notes(kind: type[Any]) -> dict[str, str]:
    """The text below each field of a class."""
    found = {}
    for body in (node.body for node in ast.parse(inspect.getsource(kind)).body if isinstance(node, ast.ClassDef)):
        for field, note in pairwise(body):
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            if isinstance(note, ast.Expr) and isinstance(note.value, ast.Constant):
                found[field.target.id] = inspect.cleandoc(str(note.value.value))
    return found


def _write_labels() -> str:
    parts = ["# Labels and annotations", _ORIGIN.format("`shared/model/labels.py`"), _LABELS]
    _, *groups = _GROUP.split(inspect.getsource(labels))
    for title, lines in zip(groups[::2], groups[1::2], strict=True):
        keys = list(_list_keys(lines))
        rows = ((f"`{key}`", note) for key, note in keys if note)
        parts += [f"## {title[0].upper()}{title[1:]}", _table(("key", "note"), rows)]
        if others := ", ".join(f"`{key}`" for key, note in keys if not note):
            parts.append(fill(f"Others: {others}.", 100, break_on_hyphens=False))
    return "\n\n".join(parts) + "\n"


def _list_keys(lines: str) -> Iterator[tuple[str, str]]:
    pattern = r'^([A-Z][A-Z_]+) = f?"[^"\s]+"(?:  # (.+))?(?:\n"""([^"]+)""")?'
    for match in re.finditer(pattern, lines, re.MULTILINE):
        if not match[1].endswith("_VALUE"):
            yield getattr(labels, match[1]), match[2] or match[3] or ""


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    """A docstring as a cell of a table."""
    lines = re.sub(r"\n- ", "<br>• ", text.replace("``", "`"))
    return re.sub(r"\s*\n\s*", " ", lines).replace("|", "\\|").strip()


if __name__ == "__main__":
    for page, content in write_pages().items():
        (FOLDER / page).write_text(content, encoding="utf-8")
