"""Draws usage: bars as SVG, and a page with the bars and the table. Both load nothing.

The drawing is 390 units wide, so that its text is readable on a phone, and in print.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from cli.printing import Column

    Bar = tuple[str, float, str]
    """A group, its length, and the text of that."""

WIDTH, ROW, MARGIN = 390, 34, 8
_PAGE = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))


def draw_svg(title: str, bars: Sequence[Bar]) -> str:
    """Return the bars of some groups as a drawing."""
    longest = max((length for _, length, _ in bars), default=0.0) or 1.0
    lines = []
    for number, (group, length, text) in enumerate(bars):
        top, width = number * ROW, length / longest * (WIDTH - 2 * MARGIN)
        lines.append(f'<text x="{MARGIN}" y="{top + 14}">{escape(group)}: {escape(text)}</text>')
        lines.append(f'<rect x="{MARGIN}" y="{top + 18}" width="{width:.1f}" height="10" fill="#3f7cac"/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {max(1, len(bars)) * ROW}" role="img"'
    font = 'font-family="system-ui, sans-serif" font-size="12" fill="currentColor"'
    return "\n".join([f'{head} aria-label="{escape(title)}" {font}>', *lines, "</svg>"])


def write_html(
    title: str, bars: Sequence[Bar], columns: Sequence[Column[Any]], rows: Sequence[Any], remarks: Sequence[str]
) -> str:
    """Return a page with the bars and the table; in a narrow window each row is a list."""
    shown = [column for column in columns if column.heading]
    lines = [
        "".join(f'<td data-label="{escape(each.heading)}">{escape(str(each.write(row)))}</td>' for each in shown)
        for row in rows
    ]
    return _PAGE.substitute(
        title=escape(title),
        drawing=draw_svg(title, bars),
        head="".join(f'<th scope="col">{escape(each.heading)}</th>' for each in shown),
        rows="".join(f"<tr>{each}</tr>" for each in lines),
        notes="".join(f"<p>{escape(each)}</p>" for each in remarks),
    )
