"""The site of the documentation: whole by itself, with a search, and strict about its links."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.run import MKDOCS, ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.docs, pytest.mark.slow]
LOADED = re.compile(r"<(?:script|img|iframe)[^>]* src=\"?(?:https?:)?//|<link[^>]* href=\"?(?:https?:)?//")
"""What a browser would fetch from elsewhere. A link that a reader follows is no such thing."""


def build(root: Path, output: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a tree."""
    return subprocess.run(
        [MKDOCS, "build", "--site-dir", output],
        cwd=root,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this tree."""
    output = tmp_path_factory.mktemp("site")
    result = build(ROOT, output)
    assert result.returncode == 0, result.stderr
    return output


def test_every_page_of_the_documentation_is_in_the_site(site: Path) -> None:
    docs = ROOT / "docs"
    missing = [
        page
        for page in sorted(docs.rglob("*.md"))
        if not (site / page.relative_to(docs).with_suffix(".html")).is_file()
    ]

    assert missing == []


def test_a_link_to_a_file_outside_the_documentation_leads_to_a_page(site: Path) -> None:
    page = (site / "index.html").read_text()

    assert 'href="repository/examples/index.html"' in page
    assert "v6e-two-slices" in (site / "repository/examples/index.html").read_text()


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))

    assert len(pages) > 100
    assert [str(page) for page in pages if LOADED.search(page.read_text())] == []


def test_the_search_finds_the_heading_of_a_reason_and_no_source_file(site: Path) -> None:
    found = {each["location"] for each in json.loads((site / "search/search_index.json").read_text())["docs"]}

    assert "runbook.html#stockout" in found
    assert "reference/settings.html#functions" in found
    assert [each for each in found if each.endswith((".py.html", ".yaml.html"))] == []


def test_a_broken_link_a_wrong_heading_and_an_orphan_end_the_build(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for path in ROOT.iterdir():
        if path.name not in {"docs", "mkdocs.yml"}:
            (tree / path.name).symlink_to(path)
    shutil.copytree(ROOT / "docs", tree / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tree)
    with (tree / "docs/index.md").open("a") as page:
        page.write("\n[a](no-such-page.md), [b](runbook.md#no-such-heading)\n")
    (tree / "docs/orphan.md").write_text("# Orphan\n")

    result = build(tree, tmp_path / "site")

    assert result.returncode == 1
    assert "no-such-page.md" in result.stderr
    assert "#no-such-heading" in result.stderr
    assert "- orphan.md" in result.stderr
    assert result.stderr.count("WARNING") == 3
