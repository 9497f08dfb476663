"""Our own rules, executed: sizes of the product's files, kinds in their entries, documents."""

import ast
import re
from pathlib import Path

import pytest

from shared.model import errors
from shared.model.decisions import Reason

ROOT = Path(__file__).resolve().parents[2]
DEPLOYED_ROOMS = ("shared", "functions", "exporter", "cli")
FILE_LINES_MAX = 450
FUNCTION_LINES_MAX = 70
PAGES_MAX, PAGE_LINES_MAX = 48, 4_800  # of docs/. The numbers only ever fall.
RECORDS_MAX, RECORD_LINES_MAX = 15, 40
ROOT_PAGES_MAX = {"README.md": 50, "CONTRIBUTING.md": 60, "CHANGELOG.md": 120, "ARCHITECTURE.md": 180}
KEYS_OF_OWNERS = (ROOT / "shared/model/labels.py", ROOT / "shared/model/names.py")
"""The label keys by which pools name the kind of their owner."""
GONE_ON_PURPOSE = {"CHANGELOG.md", "what-went.md"}
"""The documents that tell of what is no longer there."""
NAMES_OF_KINDS = re.compile(r"jobset|raycluster|ray\.io|leaderworkerset", re.IGNORECASE)


def code_files() -> list[Path]:
    """Every Python file of the product."""
    return sorted(path for room in DEPLOYED_ROOMS for path in (ROOT / room).rglob("*.py"))


def list_entries() -> list[Path]:
    """The modules of the kinds: all of the folder but what they share."""
    shared = {"__init__.py", "__main__.py", "elastic.py", "kind.py", "objects.py", "table.py"}
    return sorted(path for path in (ROOT / "shared/kinds").glob("*.py") if path.name not in shared)


def functions_of(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a file, nested ones too."""
    tree = ast.parse(path.read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def shown(path: Path) -> str:
    """A path as people write it."""
    return str(path.relative_to(ROOT))


def test_no_file_is_over_its_limit() -> None:
    sizes = {shown(path): len(path.read_text().splitlines()) for path in code_files()}

    assert {path: lines for path, lines in sizes.items() if lines > FILE_LINES_MAX} == {}


def test_no_function_is_over_its_limit() -> None:
    long = [
        f"{shown(path)}:{node.lineno} {node.name}"
        for path in code_files()
        for node in functions_of(path)
        if (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]

    assert long == []


def test_no_kind_of_workload_is_named_outside_its_entry() -> None:
    table = ROOT / "shared/kinds/table.py"
    rooms = [path for room in DEPLOYED_ROOMS for path in (ROOT / room).rglob("*.py")]
    named = [
        f"{shown(path)}:{number}: {line.strip()}"
        for path in rooms
        if path not in (*list_entries(), table, ROOT / "cli/planning/objects.py", *KEYS_OF_OWNERS)
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if NAMES_OF_KINDS.search(line) and not line.strip().startswith("Example: ")
    ]

    assert named == [], "what is particular to a kind belongs in its entry: docs/kinds.md"


def test_every_reason_is_in_the_runbook_once_as_a_heading_or_as_a_row() -> None:
    page = (ROOT / "docs/runbook.md").read_text()
    names = re.findall(r"^(?:### |\| <a id=\"\w+\"></a>`)(\w+)(?:$|` \|)", page, re.MULTILINE)

    assert sorted(names) == sorted(str(reason) for reason in Reason)


def test_every_reason_is_given_by_some_decision_or_error() -> None:
    sources = "\n".join(
        path.read_text()
        for path in (*(ROOT / "shared").rglob("*.*"), *(ROOT / "cli").rglob("*.py"))
        if path.suffix in (".py", ".json") and path.name != "decisions.py"
    )
    of_errors = {
        kind.reason for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "reason")
    }
    unused = [
        reason.name
        for reason in Reason
        if f"Reason.{reason.name}" not in sources
        and f'"{reason}"' not in sources
        and f"\n{reason}: " not in sources
        and str(reason) not in of_errors
    ]

    assert unused == []


def list_documents() -> list[Path]:
    """The documents of the project."""
    rooms = ("docs", "examples", "standins", "infra")
    return [*ROOT.glob("*.md"), *(path for room in rooms for path in (ROOT / room).rglob("*.md"))]


def test_every_link_between_the_documents_leads_somewhere() -> None:
    broken = [
        f"{shown(document)} -> {target}"
        for document in list_documents()
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
        if not (document.parent / target).exists()
    ]

    assert broken == []


def test_the_documents_are_read_in_an_evening() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    records = {path.name: len(path.read_text().splitlines()) for path in (ROOT / "docs/decisions").iterdir()}

    assert len(pages) <= PAGES_MAX
    assert sum(len(path.read_text().splitlines()) for path in pages) <= PAGE_LINES_MAX
    assert len(records) <= RECORDS_MAX, "edit the record that is about it"
    assert {name: lines for name, lines in records.items() if lines > RECORD_LINES_MAX} == {}


def list_places() -> set[str]:
    """The files and folders of the project, each by its path, by its end and by its name."""
    rooms = (path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
    paths = [each.relative_to(ROOT) for room in rooms for each in (room, *room.rglob("*"))]
    ends = {"/".join(path.parts[start:]) for path in paths for start in range(len(path.parts))}
    return ends | {path.name for path in ROOT.iterdir()}


def test_no_document_names_a_place_that_is_gone() -> None:
    places = list_places()
    gone = [
        f"{shown(document)}: {name}"
        for document in list_documents()
        if document.name not in GONE_ON_PURPOSE
        for name in re.findall(r"`([a-z_]+/[\w./-]+|\w+\.py)`", document.read_text())
        if name.rstrip("/") not in places and (name.endswith(".py") or name.partition("/")[0] in places)
    ]

    assert gone == [], "say where it is now"


@pytest.mark.parametrize("name", ROOT_PAGES_MAX)
def test_a_page_at_the_root_is_read_in_one_go(name: str) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= ROOT_PAGES_MAX[name]


def name_anchor(title: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def list_anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, and those of rows that have one."""
    text = document.read_text()
    headings = {name_anchor(each) for each in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    return headings | set(re.findall(r"<a id=\"([^\"]+)\">", text))


def test_every_link_to_a_heading_finds_it() -> None:
    broken = [
        f"{shown(document)} -> {target}#{anchor}"
        for document in list_documents()
        for target, anchor in re.findall(r"\]\(([^)#:]*\.md|)#([^)]+)\)", document.read_text())
        if anchor not in list_anchors(document.parent / target if target else document)
    ]

    assert broken == []
