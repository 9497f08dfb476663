"""Draws an account by day as SVG, and as an HTML page with its table.

The drawing is 390 units wide, so its text is readable on a phone. Wasted and unknown hours have
patterns, so a print without colours shows them too. The page has the styles of the board.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from cli.moments import format_moment
from cli.usage.hours import DAY_SECONDS, Cause, Hours, name_day
from cli.usage.usage_table import HEADINGS, LEGEND, list_cells, list_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cli.usage.hours import Account
    from cli.usage.record_stream import Span

WIDTH, HEIGHT, LEFT, RIGHT, TOP = 390, 150, 54, 8, 26
DAYS_MAX, _WHOLE = 366, 10
_LINE, _LABELS_MAX = 18, 5
FONT, CHARACTER = 13, 7.2
"""The size of the text, and the most that a character is wide, in units."""
_FILLS: dict[str, str] = {
    Hours.USED: "#4f9d69",
    Hours.IDLE: "#d9c9a3",
    Hours.STARTING: "#3f7cac",
    Hours.WASTED: "url(#wasted)",
    Hours.UNKNOWN: "url(#unknown)",
    Cause.CREATION: "#3f7cac",
    Cause.STOCKOUT: "#8b1e1e",
    Cause.QUOTA: "#c9762b",
    Cause.LIMIT: "#e3c565",
    Cause.QUEUE: "#8d5a97",
    Cause.PAUSE: "#b7c4cf",
    Cause.REFUSED: "url(#wasted)",
    Cause.UNKNOWN: "url(#unknown)",
}
_PATTERNS = (
    '<defs><pattern id="wasted" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="5" height="5" fill="#f3c1bb"/><rect width="2" height="5" fill="#a11a1a"/></pattern>'
    '<pattern id="unknown" width="5" height="5" patternUnits="userSpaceOnUse"><rect width="5" height="5" '
    'fill="#ffffff"/><circle cx="2.5" cy="2.5" r="1" fill="#55595f"/></pattern></defs>'
)
_STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
_BOARD = Path(__file__).parent.parent / "board" / "page.html"
_OWN_STYLE = (
    "<style>.chart { width: 100%; max-width: 60rem; height: auto; } "
    "@media print { :root { --ground: #fff; --panel: #fff; --text: #000; --soft: #333; --line: #999; } "
    "section { break-inside: avoid; } }</style>"
)


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    unit: str
    days: Mapping[str, Mapping[str, float]]
    """By day and part; a day that has nothing may be absent."""
    parts: Sequence[str]


def draw_svg(account: Account, span: Span) -> str:
    """Return the chart of an account: chip-hours by day, and hours waited by day and cause."""
    names = [name_day(span.begin + index * DAY_SECONDS) for index in range(_count_days(span))]
    rows = account.sum_days()
    chips = _Panel(
        "Chip-hours by day", "chip-hours", {day: row.chip_hours for day, row in rows.items()}, tuple(Hours)
    )
    waits = _Panel(
        "Hours waited by day", "hours waited", {day: row.waited for day, row in rows.items()}, tuple(Cause)
    )
    body, top = [], 0
    for panel in (chips, waits):
        lines = list(_draw_panel(panel, names))
        legend, height = _draw_legend(panel.parts)
        body += [f'<g transform="translate(0 {top})">', *lines, *legend, "</g>"]
        top += TOP + HEIGHT + 24 + height
    total = account.sum_all()
    told = "; ".join(f"{each} {total.chip_hours[each]:,.1f}" for each in Hours)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {WIDTH} {top}" role="img" '
        f'aria-label="Chip-hours from {names[0]} to {names[-1]}: {told}" font-family="system-ui, sans-serif" '
        f'font-size="{FONT}" fill="currentColor">'
    )
    return "\n".join([head, _PATTERNS, *body, "</svg>"]) + "\n"


def _count_days(span: Span) -> int:
    return min(DAYS_MAX, int(span.end // DAY_SECONDS) - int(span.begin // DAY_SECONDS) + 1)


def _draw_panel(panel: _Panel, names: Sequence[str]) -> Iterator[str]:
    most = _round_up(max((sum(panel.days.get(day, {}).values()) for day in names), default=0.0))
    step = (WIDTH - LEFT - RIGHT) / len(names)
    yield f'<text x="{LEFT}" y="14" font-weight="bold">{panel.title}</text>'
    for share in (0.0, 0.5, 1.0):
        y = TOP + HEIGHT * (1 - share)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#8a8f96" stroke-width="0.5"/>'
        yield f'<text x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{_write_tick(most * share)}</text>'
    every = math.ceil(len(names) / _LABELS_MAX)
    for index, day in enumerate(names):
        x = LEFT + index * step
        if index % every == 0:
            yield f'<text x="{x:.1f}" y="{TOP + HEIGHT + 14}">{day[5:]}</text>'
        y = float(TOP + HEIGHT)
        for part in panel.parts:
            value = panel.days.get(day, {}).get(part, 0.0)
            if value > 0:
                height = HEIGHT * value / most
                y -= height
                yield (
                    f'<rect x="{x + step * 0.08:.1f}" y="{y:.2f}" width="{step * 0.84:.1f}" height="{height:.2f}" '
                    f'fill="{_FILLS[part]}" stroke="#55595f" stroke-width="0.3">'
                    f"<title>{day} {part}: {value:,.1f} {panel.unit}</title></rect>"
                )


def _draw_legend(parts: Sequence[str]) -> tuple[list[str], int]:
    """Return the legend, with its height."""
    lines, x, y = [], float(LEFT), TOP + HEIGHT + 32
    for part in parts:
        width = 16 + len(part) * CHARACTER
        if x + width > WIDTH - RIGHT:
            x, y = float(LEFT), y + _LINE
        fill = f'fill="{_FILLS[part]}" stroke="#55595f" stroke-width="0.5"'
        lines.append(f'<rect x="{x:.1f}" y="{y - 9}" width="10" height="10" {fill}/>')
        lines.append(f'<text x="{x + 14:.1f}" y="{y}">{part}</text>')
        x += width + 8
    return lines, y - TOP - HEIGHT - 8


def _write_tick(value: float) -> str:
    return f"{value:,.0f}" if value >= _WHOLE else f"{value:g}"


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20 and so on; 1 for nothing."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * each for each in (1, 2, 5, 10) if value <= power * each * (1 + 1e-9))


def write_html(account: Account, by: str, span: Span) -> str:
    """Return a page with the chart, the table of the groups, and what is not known."""
    style = _STYLE.search(_BOARD.read_text(encoding="utf-8"))
    heads = "".join(f'<th scope="col">{escape(each)}</th>' for each in (by, *HEADINGS))
    rows = [*account.sum_groups().items(), ("(all)", account.sum_all())]
    body = "\n".join(_write_row(by, name or "-", list_cells(row)) for name, row in rows)
    lines = "\n".join(f"<p>{escape(each)}</p>" for each in (LEGEND, *list_lines(account)))
    title = f"Usage from {format_moment(span.begin)} to {format_moment(span.end)}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>TPU Provisioner: {title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{style[0] if style else ""}
{_OWN_STYLE}
</head>
<body>
<header><h1>TPU Provisioner</h1><p>{title}</p></header>
<main>
<section>
{draw_svg(account, span)}</section>
<section>
<div class="scroll" tabindex="0" role="group" aria-label="Table of the groups">
<table>
<thead><tr>{heads}</tr></thead>
<tbody>
{body}
</tbody>
</table>
</div>
{lines}
</section>
</main>
</body>
</html>
"""


def _write_row(by: str, name: str, cells: Sequence[str]) -> str:
    shown = zip((by, *HEADINGS), (name, *cells), strict=True)
    return "<tr>" + "".join(f'<td data-label="{escape(a)}">{escape(b)}</td>' for a, b in shown) + "</tr>"
