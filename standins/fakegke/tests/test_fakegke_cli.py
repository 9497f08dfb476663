"""The command line of the fake GKE, and that its documentation knows every switch."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from standins.fakegke.cli import app
from standins.fakegke.faults.fault_rules import SWITCHES, Fault

PAGE = Path(__file__).parents[3] / "docs" / "fake-gke.md"


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


@pytest.mark.parametrize("name", sorted(SWITCHES))
def test_the_page_explains_each_switch_in_the_words_of_the_code(name: str) -> None:
    common = set(Fault.__struct_fields__)
    own = ", ".join(f"`{field}`" for field in SWITCHES[name].__struct_fields__ if field not in common)
    assert f"| `{name}` | {SWITCHES[name].__doc__} | {own} |" in PAGE.read_text(encoding="utf-8")


def test_an_address_of_pubsub_that_is_no_url_is_refused() -> None:
    result = _run("serve", "--project=p", "--location=us-east5", "--cluster=c", "--pubsub=127.0.0.1:80")

    assert result.exit_code == 2
    assert result.stderr.startswith("error: --pubsub: is not a URL (got '127.0.0.1:80'); valid: http://HOST")
