"""Writes the result of a run into its document, between two marks."""

from pathlib import Path

from demo.ray.ray_run import Outcome

BEGIN, END = "<!-- recorded: begin -->", "<!-- recorded: end -->"


class BadRecord(Exception):
    """The document has no place for a record; the text says what it lacks."""


def check_record(path: Path) -> None:
    """Return quietly when a document can take a record.

    Raises BadRecord: it is not there, or lacks the marks.
    """
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text.find(BEGIN) < 0 or text.find(END) < text.find(BEGIN):
        raise BadRecord(f"--record {path}: there must be a file with the lines {BEGIN} and {END}")


def write_record(path: Path, outcome: Outcome, *, versions: str, speed: float) -> None:
    """Replace the text between the marks by this run."""
    text = path.read_text(encoding="utf-8")
    before, rest = text[: text.index(BEGIN)], text[text.index(END) :]
    path.write_text(f"{before}{BEGIN}\n{_render(outcome, versions, speed)}\n{rest}", encoding="utf-8")


def _render(outcome: Outcome, versions: str, speed: float) -> str:
    steps: dict[tuple[str, str], list[str]] = {}
    for line in outcome.lines:
        steps.setdefault((f"{line.at - outcome.started_at:.1f}", line.who), []).append(line.what)
    rows = [f"| {at} | {who} | {'; '.join(what)} |" for (at, who), what in steps.items()]
    calls = [
        f"| `{pool}` | {', '.join(f'{method} {count}' for method, count in sorted(methods.items()))} |"
        for pool, methods in outcome.calls.items()
    ]
    asked = ", ".join(outcome.kinds)
    return "\n".join(
        [
            "",
            f"{versions}; asked for: {asked}. GKE's durations at {speed:g} times their speed, all else real.",
            "",
            "| second | who | what |",
            "| ---: | --- | --- |",
            *rows,
            "",
            "| pool | calls of GKE about it |",
            "| --- | --- |",
            *calls,
            "",
        ]
    )
