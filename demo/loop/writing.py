"""Writes reports: JSON, a page, or a picture, chosen by the ending of the file's name."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import jinja2

from cli.exit_codes import BadInput
from cli.explaining import drop_links, find_section
from demo.loop.drawing import LEGEND, draw
from demo.loop.report import build_report
from demo.loop.run_outcome import Outcome
from demo.loop.steps import STEPS

SUFFIXES = (".json", ".html", ".svg")
_WRAPPED = re.compile(r"(?<=\S)\n {2,}(?=[^\s-])")
"""The end of a line within an item of a list."""


class BadReportPath(Exception):
    """A report was asked for in a form that is not known, or where it cannot be written."""


def parse_report_paths(texts: Iterable[str]) -> list[Path]:
    """Return the paths of the wanted reports; one text may hold several, separated by spaces.

    Raises BadReportPath: an ending is unknown or the folder does not exist.
    """
    paths = [Path(each) for text in texts for each in text.split()]
    for path in paths:
        if path.suffix not in SUFFIXES:
            raise BadReportPath(f"report {path}: unknown ending {path.suffix!r}; valid: {', '.join(SUFFIXES)}")
        check_folder(path)
    return paths


def check_folder(path: Path | None) -> None:
    """Accept a path in a folder that exists, or none.

    Raises BadReportPath: there is no such folder.
    """
    if path and not path.resolve().parent.is_dir():
        raise BadReportPath(f"report {path}: the folder {path.parent} does not exist; valid: another path")


def write_report(path: Path, outcome: Outcome) -> None:
    """Write one report in the form that its ending names."""
    if path.suffix == ".json":
        text = json.dumps(build_report(outcome), indent=2) + "\n"
    elif path.suffix == ".svg":
        text = render_svg(outcome)
    else:
        text = render_html(outcome)
    path.write_text(text, encoding="utf-8")


def render_svg(outcome: Outcome) -> str:
    """Return the picture of a run."""
    return (
        _templates()
        .get_template("run.svg.jinja")
        .render(d=draw(outcome), colors={phase: color for phase, (_, color) in LEGEND.items()})
    )


def render_html(outcome: Outcome) -> str:
    """Return a page of its own, without anything to load: numbers, lanes, tables, the runbook."""
    drawn, report = draw(outcome), build_report(outcome)
    decisions = [(one, each) for one in report["slices"] for each in one["decisions"]]
    decisions.sort(key=lambda pair: pair[1]["at"])
    reasons = [each["reason"] for _, each in decisions] + [each["reason"] for each in report["refusals"]]
    return (
        _templates()
        .get_template("run.html.jinja")
        .render(
            d=drawn,
            r=report,
            steps=[str(step) for step in STEPS],
            decisions=decisions,
            workloads=sorted({lane.workload for lane in drawn.lanes}),
            sections=read_reasons(sorted(set(reasons))),
        )
    )


def read_reasons(reasons: Iterable[str]) -> dict[str, str]:
    """Return the text of the runbook about each reason that it knows, in whole paragraphs."""
    found = {}
    for reason in reasons:
        try:
            _, text = find_section(reason)
        except BadInput:
            continue
        found[reason] = _WRAPPED.sub(" ", drop_links(text)).replace("**", "").replace("`", "")
    return found


def _templates() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
