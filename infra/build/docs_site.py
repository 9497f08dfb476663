"""Makes the pages of docs/ a site that is whole by itself (a hook of MkDocs: mkdocs.yml).

Links between the pages of docs/ work as they are. A link to a file outside docs/ works on GitHub
only, because the project has no address of its own yet. So each such file becomes a page of the
site, below ``repository/``: Markdown as it is, a folder as a list, other text as code.

It imports nothing of the project.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from markdown.extensions import Extension
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).absolute().parents[2]
LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?(?=\))")
"""A relative link or image. One with a scheme has a colon."""
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
PICTURES = (".svg", ".png", ".gif")
RECORDS = "decisions/*"
"""In the navigation: every decision record, so that a new one needs no line there."""


class ListsOfTwo(Extension):  # type: ignore[misc]  # the library is in another environment
    """GitHub nests a list that is indented by two columns; Python-Markdown by four."""

    def extendMarkdown(self, md: Any) -> None:  # noqa: N802 -- Python-Markdown's name
        """Set the indentation of nested blocks."""
        md.tab_length = 2


def on_config(config: Any) -> Any:
    """List the decision records in the navigation, and read lists as GitHub does."""
    config.markdown_extensions.append(ListsOfTwo())
    records = sorted(path.name for path in (ROOT / "docs/decisions").glob("*.md"))
    config.nav = _expand(config.nav, [f"decisions/{name}" for name in records])
    return config


def _expand(nav: list[Any], records: list[str]) -> list[Any]:
    expanded: list[Any] = []
    for entry in nav:
        if entry == RECORDS:
            expanded += records
        elif isinstance(entry, dict):
            expanded.append(
                {key: _expand(it, records) if isinstance(it, list) else it for key, it in entry.items()}
            )
        else:
            expanded.append(entry)
    return expanded


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each file outside docs/ that a page links to, or the navigation names."""
    named = re.findall(r"repository/([^'\"\]},]+\.md)", str(config.nav))
    pages = files.documentation_pages()
    waiting = [*named, *(link for page in pages for link in _list_targets(_text(page), f"docs/{page.src_uri}"))]
    done: set[str] = set()
    while waiting:
        target = waiting.pop()
        name = _name_page(target)
        if target in done or name is None or files.get_file_from_path(name):
            continue
        done.add(target)
        if target.endswith(PICTURES):
            files.append(File.generated(config, name, abs_src_path=str(ROOT / target)))
            continue
        text = _write_page(target)
        page = File.generated(config, name, content=text, inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(page)
        if target.endswith(".md") or (ROOT / target).is_dir():
            waiting += _list_targets(text, _find_origin(page.src_uri))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point each link of a page to the page that the site has for its target."""
    origin = _find_origin(page.file.src_uri)

    def rewrite(link: re.Match[str]) -> str:
        target = _name_page(_resolve(link["target"], origin))
        if target is None:
            return link[0]
        return posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".") + (link["anchor"] or "")

    fences = [match.span() for match in FENCE.finditer(markdown)]
    return LINK.sub(
        lambda link: link[0] if any(start <= link.start() < end for start, end in fences) else rewrite(link),
        markdown,
    )


def _text(file: File) -> str:
    return FENCE.sub("", str(file.content_string))


def _list_targets(text: str, origin: str) -> list[str]:
    """The paths in the repository that a page links to."""
    return [_resolve(link["target"], origin) for link in LINK.finditer(text)]


def _resolve(target: str, origin: str) -> str:
    """The path in the repository of a link's target, for a page whose source is at ``origin``."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))


def _name_page(target: str) -> str | None:
    """The source path in the site of a file of the repository; None if there is no such file."""
    path = ROOT / target
    if target.startswith("..") or not path.exists():
        return None
    if path.is_dir():
        target = f"{target}/README.md"
    within = target.removeprefix("docs/")
    if within == target:
        within = f"repository/{target}"
    return within if within.endswith((".md", *PICTURES)) else f"{within}.md"


def _find_origin(src_uri: str) -> str:
    """The path in the repository that a page of the site was made from, for its relative links."""
    below = src_uri.removeprefix("repository/")
    return below if below != src_uri else f"docs/{src_uri}"


def _write_page(target: str) -> str:
    """The Markdown of a page about a file or folder of the repository."""
    path = ROOT / target
    readme = path / "README.md"
    if path.is_dir() and not readme.exists():
        names = sorted(f"{child.name}/" if child.is_dir() else child.name for child in path.iterdir())
        lines = (f"- [{name}]({name})" if name.endswith(".md") else f"- `{name}`" for name in names)
        return f"# {target}\n\n" + "\n".join(line for line in lines if "__pycache__" not in line) + "\n"
    text = (readme if path.is_dir() else path).read_text(encoding="utf-8")
    if path.is_dir() or target.endswith(".md"):
        return text
    language = {".py": "python", ".yaml": "yaml", ".tf": "hcl", ".json": "json"}.get(path.suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {target}\n\n~~~~~~{language}\n{text}\n~~~~~~\n"
