"""The pages of the Terraform modules: what each one makes, and its inputs and outputs as tables.

``python -m tests.infra.module_tables --write`` writes the tables anew after a change of variables
or outputs.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

from tests.infra.terraform_cli import TERRAFORM
from tests.infra.terraform_text import read_configuration

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.infra.terraform_text import Block

MODULES = ("modules/environment", "modules/environment/tpu_pools", "modules/provisioner")
BEGIN = "<!-- begin: python -m tests.infra.module_tables --write -->"
END = "<!-- end -->"


def page_of(module: str) -> Path:
    """Return the page of a module."""
    return TERRAFORM / module / "README.md"


def render_tables(module: str) -> str:
    """Return the tables of a module's inputs and outputs, required inputs first."""
    configuration = read_configuration(TERRAFORM / module)
    inputs = sorted(configuration.of("variable"), key=lambda each: ("default" in each.body, each.name))
    outputs = sorted(configuration.of("output"), key=lambda each: each.name)
    rows = [
        "## Inputs",
        "",
        "| name | type | default | meaning |",
        "| --- | --- | --- | --- |",
        *(_render_input(each) for each in inputs),
        "",
        "## Outputs",
        "",
        "| name | meaning |",
        "| --- | --- |",
        *(f"| `{each.name}` | {_flatten(each.body['description'])} |" for each in outputs),
    ]
    return "\n".join(rows)


def replace_tables(text: str, tables: str) -> str:
    """Return the page with other tables between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def _render_input(each: Block) -> str:
    kind = _flatten(re.sub(r"^\$\{|\}$", "", str(each.body["type"])))
    default = f"`{json.dumps(each.body['default'])}`" if "default" in each.body else "required"
    return f"| `{each.name}` | `{kind}` | {default} | {_flatten(each.body['description'])} |"


def _flatten(text: str) -> str:
    lines = re.sub(r"^<<-?[A-Z]+\n|\n\s*[A-Z]+$", "", text)
    return " ".join(lines.replace('\\"', '"').replace("|", "\\|").split())


def main(arguments: Iterable[str]) -> int:
    """Write the tables into the pages, or say how."""
    if list(arguments) != ["--write"]:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    for module in MODULES:
        path = page_of(module)
        path.write_text(replace_tables(path.read_text(), render_tables(module)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
