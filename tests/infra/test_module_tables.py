"""The pages of the Terraform modules have the inputs and outputs that the modules have."""

from __future__ import annotations

import re

import hcl2
import pytest

from tests.infra.module_tables import BEGIN, END, MODULES, page_of, render_tables, replace_tables
from tests.infra.terraform_cli import TERRAFORM
from tests.infra.terraform_text import read_configuration


@pytest.mark.parametrize("module", MODULES)
def test_the_tables_are_those_of_the_module(module: str) -> None:
    text = page_of(module).read_text()

    assert (text.count(BEGIN), text.count(END)) == (1, 1)
    assert replace_tables(text, render_tables(module)) == text, "run: python -m tests.infra.module_tables --write"


def test_every_module_has_a_page() -> None:
    found = {str(path.parent.relative_to(TERRAFORM)) for path in (TERRAFORM / "modules").rglob("versions.tf")}

    assert found == set(MODULES)


@pytest.mark.parametrize("module", ["modules/environment", "modules/provisioner"])
def test_the_usage_gives_what_is_required_and_no_more(module: str) -> None:
    (usage,) = re.findall(r"```hcl\n(.*?)```", page_of(module).read_text(), re.DOTALL)
    (called,) = hcl2.loads(usage)["module"]
    (given,) = called.values()
    required = {
        each.name for each in read_configuration(TERRAFORM / module).of("variable") if "default" not in each.body
    }

    assert set(given) - {"source", "__is_block__"} == required
    assert f"//infra/terraform/{module}?ref=" in given["source"]


def test_a_table_says_type_default_and_what_is_required() -> None:
    table = render_tables("modules/provisioner")

    assert '| `name` | `string` | `"tpu-provisioner"` | Prefix of everything' in table
    assert "| `functions_archive` | `string` | required | Path of" in table
    assert "| `elastic_pools` | `bool` | `true` | Whether" in table
    assert "\n| `accounts` | E-mail address of every account" in table
    assert "EOT" not in table
