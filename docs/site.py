"""Adds the pages and examples outside docs/ to the site, below ``repository/`` (a hook of MkDocs).

A link to any other file of the repository becomes its text, because the project has no address of
its own yet. It imports nothing of the project.
"""

from __future__ import annotations

import posixpath
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files, InclusionLevel

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).absolute().parents[1]
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
"""A relative link or image. One with a scheme has a colon."""


def list_pages() -> Iterator[Path]:
    """Yield the Markdown of the repository's root, each folder's README, and the examples."""
    yield from ROOT.glob("*.md")
    yield from (ROOT / "examples").rglob("*.yaml")
    for folder in ("examples", "infra", "standins"):
        yield from (ROOT / folder).rglob("README.md")


def on_files(files: Files, config: Any) -> Files:
    """Add these pages to those of docs/."""
    for path in list_pages():
        name, text = f"repository/{path.relative_to(ROOT)}", path.read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Point each link of a page to what the site has for it."""
    write = partial(_write_link, page.file.src_uri, files)
    parts = FENCE.split(markdown)
    return "".join(part if index % 2 else LINK.sub(write, part) for index, part in enumerate(parts))


def _write_link(page: str, files: Files, link: re.Match[str]) -> str:
    origin = page.removeprefix("repository/") if page.startswith("repository/") else f"docs/{page}"
    target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), link["target"]))
    if not (ROOT / target).exists():
        return link[0]  # MkDocs warns of it
    target += "/README.md" if (ROOT / target).is_dir() else ""
    uri = target.removeprefix("docs/") if target.startswith("docs/") else f"repository/{target}"
    if files.get_file_from_path(uri) is None:
        return link["text"]
    return f"[{link['text']}]({posixpath.relpath(uri, posixpath.dirname(page) or '.')}{link['anchor'] or ''})"
