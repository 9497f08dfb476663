"""Writes Terraform's own tests from the tables of a configuration, tests/plans.yaml.

Each row is a `run`. A row of `planned` has inputs, and expressions with their values: an expression
may be cut into a prefix and a table of what follows it. A value that begins with `=` is another
expression, and one that begins with `~` is a part of the text. A row of `refused` has inputs, and
names what refuses them, if that is not each input.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

_PREFIX = re.compile(r"(data\.)?google_\w+\.\S+|values\(.+\)\[\*\]\S*")
"""What a table of attributes may follow; any other table is a value."""


def write_tests(folder: Path) -> int:
    """Write tests/plans.tftest.hcl of a configuration; return how many runs it has."""
    tables = yaml.safe_load((folder / "tests/plans.yaml").read_text(encoding="utf-8"))
    blocks = [tables["hcl"], _block("variables", _list_inputs(tables["given"]))]
    for name, row in tables["planned"].items():
        lines = [*_list_plan(row), *(line for each in _list_facts(row) for line in _list_assertion(*each))]
        blocks.append(_block(f'run "{_name(name)}"', lines))
    for name, row in tables["refused"].items():
        inputs = {key: value for key, value in row.items() if key not in ("answers", "refused")}
        refused = row.get("refused", [f"var.{key}" for key in inputs])
        lines = [
            "command = plan",
            *_list_plan({**row, "inputs": inputs}),
            f"expect_failures = [{', '.join(refused)}]",
        ]
        blocks.append(_block(f'run "refused_{_name(name)}"', lines))
    (folder / "tests/plans.tftest.hcl").write_text("\n".join(blocks), encoding="utf-8")
    return len(tables["planned"]) + len(tables["refused"])


def _list_plan(row: dict[str, Any]) -> Iterator[str]:
    """Yield a run's inputs, and what Google answers."""
    yield _block("variables", _list_inputs(row.get("inputs", {})))
    for target, values in row.get("answers", {}).items():
        yield _block("override_data", [f"target = {target}", f"values = {_text(values)}"])


def _list_facts(row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, dict) and _PREFIX.fullmatch(key):
            yield from ((f"{key}.{attribute}", each) for attribute, each in value.items())
        elif key not in ("inputs", "answers"):
            yield key, value


def _list_assertion(expression: str, value: Any) -> Iterator[str]:
    condition = f"jsonencode({expression}) == jsonencode({_text(value)})"
    if isinstance(value, str) and value[:1] == "=":
        condition = f"jsonencode({expression}) == jsonencode({value[1:]})"
    elif isinstance(value, str) and value[:1] == "~":
        condition = f"strcontains({expression}, {_text(value[1:])})"
    message = _text(f"{expression}: {value}: it is ").removesuffix('"')
    error = f'error_message = {message}${{jsonencode({expression})}}"'
    yield _block("assert", [f"condition = {condition}", error])


def _list_inputs(values: dict[str, Any]) -> list[str]:
    return [f"{key} = {_text(value)}" for key, value in values.items()]


def _text(value: Any) -> str:
    """JSON is HCL, but for what begins a template."""
    return json.dumps(value, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def _name(text: str) -> str:
    return re.sub(r"\W+", "_", text)


def _block(head: str, lines: list[str]) -> str:
    return "\n".join([f"{head} {{", *lines, "}"])
