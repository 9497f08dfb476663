"""Writes docs/mistakes.md, the table of what an operator can do wrong, from the tests that show it.

A test module has its rows as the constant MISTAKES, a list of tuples: mistake, answer, what
remains, next build. It is read and not imported, so that the page needs no tool of any tier.

    python -m tests.mistakes
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/mistakes.md"
COLUMNS = ("mistake", "answer", "what remains", "next build")
_HEAD = """# Mistakes, and what comes of them

The tests try these mistakes with the real scripts of the builds, most of them on a mock of Google
Cloud ([what that shows](proof.md)), and write this page (`python -m tests.mistakes`). *Answer* is
what the build says. *What remains* is what exists after the mistake. *Next build* is what the next
build does. [Deploy](deploy.md#when-a-step-fails) says what to do for each message.

One mistake is not in the table, because no build of this release can refuse it: 0.1.0 itself, built
on an environment that a newer release made. It does not ask. It replaces the network and the node
pools, and the jobs on them end. So do not run it there: [the way
back](notes-0.2.0.md#the-way-back) of such an environment is for the functions only.
"""


def list_rows() -> dict[str, list[tuple[str, ...]]]:
    """Return the rows of each test module, by its path."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name) and target.id == "MISTAKES":
                value = getattr(node, "value", None)
                assert isinstance(value, ast.expr), f"{path}: MISTAKES has no value"
                rows = [tuple(each) for each in ast.literal_eval(value)]
                found.setdefault(path.relative_to(ROOT).as_posix(), []).extend(rows)
    return found


def render_page() -> str:
    """Return the page."""
    lines = [_HEAD, f"| {' | '.join((*COLUMNS, 'shown by'))} |", "| --- | --- | --- | --- | --- |"]
    for path, rows in list_rows().items():
        test = f"[{Path(path).stem}](../{path})"
        lines += [f"| {' | '.join(each.replace('|', chr(92) + '|') for each in (*row, test))} |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page."""
    PAGE.write_text(render_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
