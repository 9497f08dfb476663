"""Cells of the table of kinds that no test proves, with reasons; a test compares the marks."""

UNPROVED: dict[tuple[str, str], str] = {}
"""By kind and cell. A reason is read in docs/kinds-proof.md, after "not proved:"."""
