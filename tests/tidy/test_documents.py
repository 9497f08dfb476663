"""The pages: short, linked, and in step with the code, its alerts and its tables."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.build.write_reference import FOLDER, write_pages
from shared.kinds.table import KINDS
from shared.model import failures
from shared.model.decisions import CREATED, EVENTS, FAILED, Reason
from shared.plan.attempts import PAUSE_SECONDS, PAUSE_SECONDS_MAX

ROOT = Path(__file__).resolve().parents[2]
PAGES_MAX, PAGE_LINES_MAX = 48, 4_800  # of docs/. The numbers only ever fall.
RECORDS_MAX, RECORD_LINES_MAX = 15, 40
ROOT_LINES_MAX = {
    "README.md": 50,
    "CONTRIBUTING.md": 60,
    "CHANGELOG.md": 120,
    "ARCHITECTURE.md": 180,
    "Makefile": 110,
    "pyproject.toml": 170,
    "requirements.txt": 200,
    "exporter/requirements.txt": 200,
}
GONE_ON_PURPOSE = {"CHANGELOG.md", "what-went.md"}
"""The documents that tell of what is no longer there."""
ROOMS = ("docs", "examples", "standins", "infra")
PATHS = [*ROOT.glob("*.md"), *(page for room in ROOMS for page in (ROOT / room).rglob("*.md"))]
DOCUMENTS = {str(path.relative_to(ROOT)): path.read_text() for path in PATHS}
RUNBOOK = DOCUMENTS["docs/runbook.md"]


def test_the_documents_are_read_in_an_evening() -> None:
    pages = [len(text.splitlines()) for name, text in DOCUMENTS.items() if name.startswith("docs/")]
    records = [len(path.read_text().splitlines()) for path in (ROOT / "docs/decisions").iterdir()]

    assert (len(pages) <= PAGES_MAX, sum(pages) <= PAGE_LINES_MAX) == (True, True)
    assert len(records) <= RECORDS_MAX, "edit the record that is about it"
    assert max(records) <= RECORD_LINES_MAX


@pytest.mark.parametrize("name", ROOT_LINES_MAX)
def test_a_file_at_the_root_is_read_in_one_go(name: str) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= ROOT_LINES_MAX[name]


def list_anchors(text: str) -> set[str]:
    """Return the anchors of a page: of headings, as GitHub and the site make them, and of rows."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    headings = {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in titles}
    return headings | set(re.findall(r"<a id=\"([^\"]+)\">", text))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_to_a_file_and_to_a_heading_of_it(name: str) -> None:
    broken = []
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", DOCUMENTS[name]):
        path = (ROOT / name).parent / target if target else ROOT / name
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in list_anchors(path.read_text())):
            broken.append(f"{target}#{anchor}")

    assert broken == []


def list_places() -> set[str]:
    """Return the files and folders of the project, each by its path, by its end and by its name."""
    rooms = (path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
    paths = [each.relative_to(ROOT) for room in rooms for each in (room, *room.rglob("*"))]
    ends = {"/".join(path.parts[start:]) for path in paths for start in range(len(path.parts))}
    return ends | {path.name for path in ROOT.iterdir()}


def test_no_document_names_a_place_that_is_gone() -> None:
    places = list_places()
    gone = [
        f"{document}: {name}"
        for document, text in DOCUMENTS.items()
        if Path(document).name not in GONE_ON_PURPOSE
        for name in re.findall(r"`([a-z_]+/[\w./-]+|\w+\.py)`", text)
        if name.rstrip("/") not in places and (name.endswith(".py") or name.partition("/")[0] in places)
    ]

    assert gone == [], "say where it is now"


NO_PROSE = re.compile(r"```.*?```|^[|#].*?$", re.DOTALL | re.MULTILINE)
"""Code, tables and headings."""
WORDS_MAX = 25


def list_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page, with each link by its words and each code as one word."""
    text = re.sub(r"`[^`]*`", "x", re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", NO_PROSE.sub("", text)))
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:- |\d+\. )", text):
        yield from re.split(r"(?<=[.:;!?])\s+", " ".join(paragraph.split()))


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if "/" not in name or name.startswith("docs/")])
def test_a_sentence_has_at_most_25_words(name: str) -> None:
    words = {each: len(re.findall(r"\S*\w\S*", each)) for each in list_sentences(DOCUMENTS[name])}
    long = [f"{number} words: {each}" for each, number in words.items() if number > WORDS_MAX]

    assert long == [] or name.endswith("labels.md")  # its lists of labels are code
    assert len(re.findall(r"\S*\w\S*", next(list_sentences("word " * 26)))) > WORDS_MAX, "a long one is noticed"


# --- the pages that follow from the code ---


def test_the_page_of_kinds_has_each_one_with_its_api_in_the_order_of_the_table() -> None:
    rows = [line for line in DOCUMENTS["docs/kinds.md"].splitlines() if "` | " in line and line.count("|") == 7]

    assert [row.split("|")[1:3] for row in rows] == [
        [f" {kind.name} ", f" `{kind.api_version}` "] for kind in KINDS
    ]


def test_the_reference_is_what_the_code_says() -> None:
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == write_pages(), (
        "run: python -m infra.build.write_reference"
    )


# --- the runbook ---


REASONS = sorted({Reason.POOL_FAILED, *(reason for reason, _ in failures._PATTERNS)})
COMMANDS = ("gcloud ", "kubectl ", "tpu-provisioner ")
ALERTS = (ROOT / "infra/terraform/modules/provisioner/alerts.tf").read_text()
ALERT = re.compile(r'title += "([^"]+)"\n +severity = "(\w+)"\n.+?heading += "([^"]+)"', re.DOTALL)
ALERT_ROW = re.compile(r"^\| ([^|]+) \| ([A-Z]+) \| \[[^]]+\]\(#([-\w]+)\) \|$", re.MULTILINE)


def test_every_reason_is_in_the_runbook_once_as_a_heading_or_as_a_row() -> None:
    names = re.findall(r"^(?:### |\| <a id=\"\w+\"></a>`)(\w+)(?:$|` \|)", RUNBOOK, re.MULTILINE)

    assert sorted(names) == sorted(map(str, Reason))


def test_the_page_lists_each_reason_of_a_failed_creation_and_no_other() -> None:
    section = RUNBOOK.partition("\n## A creation failed\n")[2].partition("\n\nTo try again")[0]

    assert sorted(re.findall(r"\[(\w+)\]\(#(\w+)\)", section)) == [(reason, reason) for reason in REASONS]


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_has_a_heading_with_what_follows_and_a_command(reason: Reason) -> None:
    section = RUNBOOK.partition(f"\n### {reason}\n")[2].partition("\n#")[0]

    assert re.findall(r"^- \*\*(Means|Next|You):\*\*", section, re.MULTILINE) == ["Means", "Next", "You"]
    assert any(each.startswith(COMMANDS) for each in re.findall(r"`([^`]+)`", section))


def test_the_pause_is_the_one_that_attempts_have() -> None:
    assert (PAUSE_SECONDS, PAUSE_SECONDS_MAX) == (60, 1800)
    assert "The pause doubles from one minute to thirty" in RUNBOOK


def test_the_table_has_each_alert_with_its_severity_and_its_heading_and_no_other() -> None:
    rows = ALERT_ROW.findall(RUNBOOK.partition("\n## Alerts\n")[2].partition("\n### ")[0])
    alerts = ALERT.findall(ALERTS)
    shown = {
        title: [row[1:] for row in rows if re.fullmatch(re.sub(r"\$\{\w+\}", ".+", title), row[0])]
        for title, _, _ in alerts
    }

    assert len(alerts) == len(rows) == ALERTS.count("  heading ")
    assert shown == {title: [(severity, heading)] for title, severity, heading in alerts}


def test_the_page_names_each_event() -> None:
    assert [each for each in (*EVENTS.values(), CREATED, FAILED) if f"`{each}`" not in RUNBOOK] == []
