"""The page about the differences that remain, made from the list of them."""

from pathlib import Path

from tests.differential.differential_known import KNOWN

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences.md"

_HEAD = """\
# Where the two clusters differ

One script of nine scenes and some fifty questions runs on the [embedded cluster](local-cluster.md)
and on [Kubernetes itself](control-plane.md). The test compares what a watcher sees: every object's
states and their order, the Events, what the exporter would publish, and the status codes and
reasons of refusals. Names with random parts, UIDs, times and versions are removed first. The script
plays only what the embedded cluster plays; what it refuses is in [its
manual](local-cluster.md#what-it-refuses). The table lists what still differs, why it stays, and
what it could hide from a test that runs on the embedded cluster only.

The test fails on a difference that is not listed, and on a listed one that does not occur any more.
This page is made from its list: `python -m tests.differential.differential_page` writes it again.

| what differs | embedded | real | why it stays | what it could hide |
| --- | --- | --- | --- | --- |
"""


def render() -> str:
    """Return the page."""
    rows = (f"| {k.what} | {k.embedded} | {k.real} | {k.reason} | {k.hides} |\n" for k in KNOWN)
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
