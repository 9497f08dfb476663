"""Writes docs/assumptions.md, the list of what the code assumes about Google.

The entries are in cli/conformance/assumptions.yaml. The places are the comments ``# assumes: NAME``
in the code; the page names the file and the function or constant, because line numbers change with
each edit.

    python -m tests.assumptions
"""

import re
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from cli.conformance.assumption_list import Assumption, read_assumptions

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/assumptions.md"
PLACES = (
    "shared/**/*.py",
    "functions/*.py",
    "exporter/*.py",
    "cli/**/*.py",
    "infra/terraform/**/*.tf",
    "infra/build/*.sh",
)
_MARKER = re.compile(r"# assumes: ([a-z0-9-]+(?:, [a-z0-9-]+)*)$")
_OWNER = re.compile(r"(?:class|def|resource|locals)?\s*([\w\"./ ]+?)\s*(?:[(:={|\[]|$)")
_EVIDENCE = {
    "documented": "Google's pages",
    "source": "public source",
    "recorded": "recorded traffic",
    "quoted": "quoted by others",
    "nothing": "**nothing**",
}
_HEAD = """# What the code assumes about Google

Each row is a fact about Google that the code relies on. `python -m tests.assumptions` writes this
page from `cli/conformance/assumptions.yaml`, and a test fails if a call of a Google API has no row.
`git grep -n 'assumes: NAME'` shows the lines. *Evidence* says how we know the fact. *Question* is
the one of [`tpu-provisioner conformance`](conformance.md) that settles it in a project of yours.
*Switch* makes the [fake GKE](fake-gke.md#faults) play another answer.
"""


def find_places() -> dict[str, list[str]]:
    """Return where the code relies on each entry, by its name: file, and function or constant."""
    found: dict[str, list[str]] = defaultdict(list)
    for pattern in PLACES:
        for path in sorted(ROOT.glob(pattern)):
            for name, owner in _read_markers(path.read_text(encoding="utf-8").splitlines()):
                place = f"`{path.relative_to(ROOT)}`{owner and f', `{owner}`'}"
                if place not in found[name]:
                    found[name].append(place)
    return found


def _read_markers(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the name of each marker, and what stands around it at the left margin or in a class."""
    owner = ""
    for line in lines:
        if re.match(r"(?:    )?def \w|class \w|[A-Za-z_]\w*(?:: .+?)? = |resource |locals ", line):
            found = _OWNER.match(line.strip())
            owner = found[1].replace('"', "").strip() if found else owner
        if marker := _MARKER.search(line):
            yield from ((name, owner) for name in marker[1].split(", "))


def render_page() -> str:
    """Return the page."""
    rows, places = read_assumptions(), find_places()
    counts = {kind: sum(each.evidence == kind for each in rows) for kind in _EVIDENCE}
    message = ", ".join(f"{counts[kind]} {words}" for kind, words in _EVIDENCE.items())
    asked = sum(bool(each.question) for each in rows)
    lines = [
        _HEAD,
        textwrap.fill(f"There are {len(rows)} facts. Their evidence: {message}. {asked} have a question.", 100),
        "",
        "| name | fact | evidence | if it is false | question | switch | where |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_render_row(each, places[each.name]) for each in rows]
    return "\n".join(lines) + "\n"


def _render_row(entry: Assumption, places: list[str]) -> str:
    words = _EVIDENCE[entry.evidence]
    evidence = f"[{words}]({entry.link})" if entry.link else words
    question = f"`{entry.question}`" if entry.question else f"none: {entry.unasked}"
    switch = f"`{entry.switch}`" if entry.switch else ""
    cells = (f"`{entry.name}`", entry.fact, evidence, entry.breaks, question, switch, "; ".join(places))
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Write the page."""
    PAGE.write_text(render_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
