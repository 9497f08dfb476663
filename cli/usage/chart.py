"""Draws usage: bars as SVG, and a page with the bars and the table. Both load nothing.

The drawing is 390 units wide, so that its text is readable on a phone, and in print.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from cli.printing import Column

    Bar = tuple[str, float, str]
    """A group, its length, and the text of that."""

WIDTH, ROW, MARGIN = 390, 34, 8
_STYLE = """body { font: 1rem/1.45 system-ui, sans-serif; margin: 1rem auto; max-width: 60rem; padding: 0 1rem; }
svg { width: 100%; max-width: 40rem; height: auto; }
table { border-collapse: collapse; width: 100%; overflow-wrap: anywhere; }
th, td { text-align: left; padding: 0.2rem 0.8rem 0.2rem 0; border-bottom: 1px solid #999; }
@media (max-width: 600px) { thead { position: absolute; left: -100vw; } td { display: block; border: 0; }
  tr { display: block; border-bottom: 1px solid #999; } td::before { content: attr(data-label) " "; } }"""


def draw_svg(title: str, bars: Sequence[Bar]) -> str:
    """Return the bars of some groups as a drawing."""
    longest = max((length for _, length, _ in bars), default=0.0) or 1.0
    lines = []
    for number, (group, length, text) in enumerate(bars):
        top, width = number * ROW, length / longest * (WIDTH - 2 * MARGIN)
        label = f'x="{MARGIN}" y="{top + 14}">{escape(group)}: {escape(text)}</text>'
        lines.append(f"<text {label}")
        lines.append(f'<rect x="{MARGIN}" y="{top + 18}" width="{width:.1f}" height="10" fill="#3f7cac"/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {max(1, len(bars)) * ROW}" role="img"'
    font = 'font-family="system-ui, sans-serif" font-size="12" fill="currentColor"'
    return "\n".join([f'{head} aria-label="{escape(title)}" {font}>', *lines, "</svg>"])


def write_html(
    title: str, bars: Sequence[Bar], columns: Sequence[Column[Any]], rows: Sequence[Any], remarks: Sequence[str]
) -> str:
    """Return a page with the bars and the table; in a narrow window each row is a list."""
    shown = [column for column in columns if column.heading]
    head = "".join(f'<th scope="col">{escape(column.heading)}</th>' for column in shown)
    lines = []
    for row in rows:
        cells = [(column.heading, str(column.write(row))) for column in shown]
        cells_html = "".join(f'<td data-label="{escape(name)}">{escape(text)}</td>' for name, text in cells)
        lines.append(f"<tr>{cells_html}</tr>")
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    top = f'<!doctype html><html lang="en"><head><meta charset="utf-8">{view}<title>{escape(title)}</title>'
    notes = "".join(f"<p>{escape(each)}</p>" for each in remarks)
    body = f"<h1>{escape(title)}</h1>{draw_svg(title, bars)}{table}{notes}"
    return f"{top}<style>{_STYLE}</style></head><body>{body}</body></html>"
