"""Draws runs as SVG: time on one axis, slices on the other. Pure."""

import math
from collections.abc import Iterable, Sequence

from benchmarks.field.records import FanOut, Record, Side, derive_figures, draw_lanes, find_minimum_seconds

WIDTH, LEFT, RIGHT, TOP = 1000, 150, 30, 70
NAMES = {Side.GO: "Go TPU Provisioner", Side.OURS: "this provisioner"}
WAITS, HAS, LATE = "#c9762b", "#3f7cac", "#8d5a97"
_LEGEND = (
    (WAITS, "unschedulable, no create accepted"),
    (HAS, "pool"),
    (LATE, "JobSet completed, no delete accepted"),
)
_PANEL_HEIGHT, _LANE_MAX, _GAP, _FOOT = 260, 14.0, 30, 60
_TICKS_MAX = 10
_CURVES = ("#c9762b", "#3f7cac", "#4f9d69", "#8d5a97")
_CHART_HEIGHT = 320
_CURVE_POINTS_MAX = 120


def draw_runs(records: Sequence[Record]) -> str:
    """Return a picture with a panel for each run, a lane for each pool, and one time axis."""
    longest = max(_last_moment(each) for each in records)
    scale = (WIDTH - LEFT - RIGHT) / longest
    parts, y = [], float(TOP)
    for record in records:
        panel, y = _draw_panel(record, y, scale)
        parts += panel
        y += _GAP
    killed = ", killed meanwhile" if records[0].killed_at else ""
    title = f"{records[0].slices} slices{killed}: from unschedulable leaders to the accepted deletes"
    return _frame(
        title, y + _FOOT, [*_draw_axis(longest, scale, y - _GAP), *parts, *_draw_legend(_LEGEND, y + 34)]
    )


def draw_fan_outs(fans: Sequence[FanOut]) -> str:
    """Return a picture of accepted creates over time, as multiples of the least possible time."""
    ratios = [_ratio(each, each.accepted_at[-1]) for each in fans]
    widest = max([*ratios, 1.0]) * 1.05
    scale, bottom = (WIDTH - LEFT - RIGHT) / widest, float(TOP + _CHART_HEIGHT)
    parts = []
    for fan, color in zip(fans, _CURVES, strict=False):
        step = max(1, len(fan.accepted_at) // _CURVE_POINTS_MAX)
        numbered = list(enumerate(fan.accepted_at, start=1))
        points = [*numbered[::step], numbered[-1]]
        line = " ".join(
            f"{LEFT + _ratio(fan, at) * scale:.1f},{bottom - number / fan.leaders * _CHART_HEIGHT:.1f}"
            for number, at in points
        )
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
    ideal = f'x1="{LEFT}" y1="{bottom}" x2="{LEFT + scale:.1f}" y2="{TOP}"'
    parts.append(f'<line {ideal} stroke="#8a949d" stroke-dasharray="5 4"/>')
    parts += [
        _text(LEFT - 10, bottom - share * _CHART_HEIGHT + 4, f"{share * fans[0].leaders:.0f}", anchor="end")
        for share in (0.25, 0.5, 0.75, 1.0)
    ]
    legend = [(color, f"limit {fan.limit}") for fan, color in zip(fans, _CURVES, strict=False)]
    legend.append(("#8a949d", "shortest possible"))
    axis = _draw_axis(widest, scale, bottom, unit="x")
    title = f"{fans[0].leaders} creates accepted, in multiples of the shortest possible time"
    return _frame(title, bottom + 90, [*axis, *parts, *_draw_legend(legend, bottom + 50)])


def _draw_panel(record: Record, y: float, scale: float) -> tuple[list[str], float]:
    lanes = draw_lanes(record)
    height = min(_LANE_MAX, _PANEL_HEIGHT / max(1, len(lanes)))
    begin = min(record.unschedulable.values())
    over = record.over_at - begin if record.over_at else math.inf
    parts = [_text(LEFT - 10, y + 12, NAMES[record.side], anchor="end")]
    if record.killed_at:
        x = LEFT + (record.killed_at - begin) * scale
        end = y + height * len(lanes)
        parts.append(f'<line x1="{x:.1f}" y1="{y - 4:.1f}" x2="{x:.1f}" y2="{end:.1f}" stroke="#b3432b"/>')
        parts.append(_text(x + 4, y - 6, "killed", color="#b3432b"))
    for lane in lanes:
        waiting = lane.unschedulable if lane.unschedulable is not None else 0.0
        deleted = lane.deleted if lane.deleted is not None else over
        spans = ((waiting, lane.created, WAITS), (lane.created, min(over, deleted), HAS), (over, deleted, LATE))
        for first, last, color in spans:
            if last > first and math.isfinite(last):
                parts.append(_bar(LEFT + first * scale, y, (last - first) * scale, height, color))
        y += height
    return parts, y


def _last_moment(record: Record) -> float:
    figures = derive_figures(record)
    begin = min(record.unschedulable.values())
    deletes = [lane.deleted for lane in draw_lanes(record) if lane.deleted is not None]
    over = record.over_at - begin if record.over_at else 0.0
    return max(figures.last_create, over, *deletes, 1.0) * 1.02


def _ratio(fan: FanOut, at: float) -> float:
    minimum = find_minimum_seconds(fan.leaders, fan.limit, fan.operation_seconds)
    return (at - fan.started_at) * fan.speed / max(minimum, 1.0)


def _draw_axis(longest: float, scale: float, bottom: float, unit: str = " s") -> list[str]:
    step = _round_up(longest / _TICKS_MAX)
    parts = []
    for index in range(int(longest / step) + 1):
        x = LEFT + index * step * scale
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom:.1f}" stroke="#e3dfd8"/>')
        parts.append(_text(x, bottom + 14, f"{index * step:g}{unit}", anchor="middle"))
    return parts


def _draw_legend(entries: Iterable[tuple[str, str]], y: float) -> list[str]:
    parts, x = [], 24.0
    for color, name in entries:
        parts.append(_bar(x, y - 10, 12, 12, color))
        parts.append(_text(x + 18, y, name))
        x += 48 + 6.5 * len(name)
    return parts


def _bar(x: float, y: float, width: float, height: float, color: str) -> str:
    gap = 1.0 if height > 6 else 0.4
    size = f'width="{max(width, 1.0):.1f}" height="{height - gap:.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{color}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", color: str = "#5d6b78") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" fill="{color}" text-anchor="{anchor}">{text}</text>'


def _frame(title: str, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
    head += f'font-family="system-ui, sans-serif" role="img" aria-label="{title}">'
    background = '<rect width="100%" height="100%" fill="#fbfaf8"/>'
    heading = f'<text x="24" y="32" font-size="16" font-weight="600" fill="#22303c">{title}</text>'
    return "\n".join([head, background, heading, *parts, "</svg>"]) + "\n"


def _round_up(value: float) -> float:
    """Return the next value of the form 1, 2 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(max(value, 1e-3)))
    return next(float(factor * power) for factor in (1, 2, 5, 10) if factor * power >= value)
