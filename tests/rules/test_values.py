"""Values never change, are made by the names of their fields, and say nothing that nobody said."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import msgspec
import yaml

TABLE: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "golden/values.yaml").read_text())


MODULES = {
    info.name: import_module(info.name)
    for package in map(import_module, ("shared", "exporter", "cli"))
    for info in walk_packages(package.__path__, f"{package.__name__}.")
}


def list_classes() -> Iterator[tuple[str, type]]:
    """Yield the name of each class of the product, and the class."""
    for path, module in MODULES.items():
        for each in vars(module).values():
            if isinstance(each, type) and each.__module__ == path:
                yield f"{path.rpartition('.')[2]}.{each.__name__}", each


CLASSES = dict(list_classes())
STRUCTS = {name: each for name, each in CLASSES.items() if issubclass(each, msgspec.Struct)}


def test_values_never_change() -> None:
    """Threads share them, and they are keys of mappings."""
    change = {name for name, each in STRUCTS.items() if not each.__struct_config__.frozen}

    assert change == set(TABLE["may change"].split())


def test_values_are_made_by_the_names_of_their_fields() -> None:
    """Two fields of one type cannot be confused."""
    parameters = {name: inspect.signature(each).parameters.values() for name, each in STRUCTS.items()}
    by_place = {name for name, of in parameters.items() if any(each.kind is not each.KEYWORD_ONLY for each in of)}

    assert by_place == set(TABLE["by place"].split())


def test_the_texts_of_operators_have_no_unknown_field() -> None:
    """A slip of the pen is told. What GKE and Kubernetes send may have new fields at any time."""
    strict = {name for name, each in STRUCTS.items() if each.__struct_config__.forbid_unknown_fields}

    assert strict == set(TABLE["no unknown field"].split())


def test_a_field_that_nobody_gave_is_empty_zero_or_false() -> None:
    """What else it says is in the table."""
    said = {
        name: {
            field: value for field, value in list_defaults(each) if value and isinstance(value, int | float | str)
        }
        for name, each in CLASSES.items()
    }

    assert {name: fields for name, fields in said.items() if fields} == TABLE["defaults"]


def test_each_time_size_and_bound_is_that_of_the_table() -> None:
    """All numbers of the product are read in one place, so who changes one thinks of the others."""
    numbers = {path: dict(list_numbers(module)) for path, module in MODULES.items()}

    assert {path: by_name for path, by_name in numbers.items() if by_name} == TABLE["numbers"]


def list_numbers(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the constants of a module that are a number, or hold nothing else."""
    for names in re.findall(r"^([A-Z_]+(?:, [A-Z_]+)*)(?:: .+)? = ", inspect.getsource(module), re.MULTILINE):
        for name in names.split(", "):
            value = vars(module)[name]
            parts = list(value) if isinstance(value, tuple) else [value]
            if all(type(each) in (int, float) for each in parts):
                yield name, parts if isinstance(value, tuple) else value


def list_defaults(each: type) -> Iterator[tuple[str, object]]:
    """Yield the fields of a class that have a value if nobody gives one."""
    if issubclass(each, msgspec.Struct):
        yield from ((field.name, field.default) for field in msgspec.structs.fields(each))
    elif dataclasses.is_dataclass(each):
        yield from ((field.name, field.default) for field in dataclasses.fields(each))
    else:
        yield from ((name, vars(each)[name]) for name in inspect.get_annotations(each) if name in vars(each))
