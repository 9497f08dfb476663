"""The pages of the Terraform modules have the inputs and outputs that the modules have."""

from __future__ import annotations

import pytest

from tests.infra.module_tables import BEGIN, END, MODULES, page_of, render_tables, replace_tables
from tests.infra.terraform_cli import TERRAFORM


@pytest.mark.parametrize("module", MODULES)
def test_the_tables_are_those_of_the_module(module: str) -> None:
    text = page_of(module).read_text()

    assert (text.count(BEGIN), text.count(END)) == (1, 1)
    assert replace_tables(text, render_tables(module)) == text, "run: python -m tests.infra.module_tables --write"


def test_every_module_has_a_page() -> None:
    found = {str(path.parent.relative_to(TERRAFORM)) for path in (TERRAFORM / "modules").rglob("versions.tf")}

    assert found == set(MODULES)


def test_a_table_says_type_default_and_what_is_required() -> None:
    table = render_tables("modules/provisioner")

    assert '| `name` | `string` | `"tpu-provisioner"` | Prefix of everything' in table
    assert "| `functions_archive` | `string` | required | Path of" in table
    assert "| `elastic_pools` | `bool` | `true` | Whether" in table
    assert "\n| `accounts` | E-mail address of every account" in table
    assert "EOT" not in table
