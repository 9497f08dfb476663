"""`explain` prints the runbook's section about what status, why and Events have in brackets."""

import pytest

from cli.explaining import find_section
from shared.model.decisions import Reason
from tests.cli.cli_world import run


@pytest.mark.parametrize("name", Reason)
def test_every_reason_has_a_section(name: str) -> None:
    _, text = find_section(name)

    assert "**You:**" in text


@pytest.mark.parametrize("name", ["stockout", "[stockout]", "STOCKOUT", "dead letters"])
def test_the_section_is_printed_without_links_to_other_pages(name: str) -> None:
    result = run("explain", name)

    heading = "Alert: dead letters" if name == "dead letters" else "stockout\n\n- **Means:**"
    assert (result.exit_code, result.stdout.startswith(f"## {heading}")) == (0, True)
    assert ".md" not in result.stdout
    assert "### " not in result.stdout
