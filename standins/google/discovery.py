"""Discovery documents: each method of each of Google's REST APIs, with path and schemas, as data.

The documents are those that the PyPI package `google-api-python-client` ships. What a method does
is decided in `generic`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from standins.google.errors import ApiError, Code

Json = dict[str, Any]
_VARIABLE = re.compile(r"\{\+?(\w+)\}")
_VERSION = re.compile(r"/?(v\d+\w*)/")
_STABLE = re.compile(r"\.v\d+\.json$")
_PLAIN: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}


@dataclass(frozen=True)
class Method:
    """One method of one API."""

    document: "Document"
    data: Json

    @property
    def verb(self) -> str:
        """Return what it does, for example ``create`` or ``setIamPolicy``."""
        return str(self.data["id"]).rpartition(".")[2]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Return the pattern of its whole path."""
        path = self.document.data["servicePath"] + self.data.get("flatPath", self.data["path"])
        names = _VARIABLE.split(path)
        parts = (re.escape(part) if number % 2 == 0 else "([^/:]+)" for number, part in enumerate(names))
        return re.compile("/?" + "".join(parts))

    @property
    def request(self) -> str:
        """Return the name of the schema of its requests; empty without a body."""
        return str(self.data.get("request", {}).get("$ref", ""))

    @property
    def response(self) -> str:
        """Return the name of the schema of its answers."""
        return str(self.data.get("response", {}).get("$ref", ""))

    @property
    def resource(self) -> str:
        """Return the name of the schema of what it is about."""
        schemas = self.document.schemas
        if self.response and self.response != "Operation":
            return self.response
        wrapped = (each.get("$ref", "") for each in schemas.get(self.request, {}).get("properties", {}).values())
        return next(filter(None, wrapped), "") if self.request.startswith("Create") else self.request

    @property
    def items(self) -> str:
        """Return the field of its answer that is a list of resources."""
        fields = self.document.schemas.get(self.response, {}).get("properties", {})
        return next((name for name, each in fields.items() if "$ref" in each.get("items", {})), "items")


class Document:
    """One API."""

    def __init__(self, data: Json) -> None:
        self.data = data
        self.name: str = data["name"]
        self.schemas: dict[str, Json] = data["schemas"]
        self.methods = [Method(self, each) for each in _walk(data)]

    def match(self, verb: str, path: str) -> tuple[Method, tuple[str, ...]]:
        """Return the method that a request means, also without the beginning that all paths have.

        Raises ApiError: no method has this path.
        """
        match = self.find(verb, path) or self.find(verb, self.data["servicePath"] + path)
        if match is None:
            raise ApiError(Code.NOT_FOUND, f"{self.name}: no method has {verb} {path}")
        return match

    def find(self, verb: str, path: str) -> tuple[Method, tuple[str, ...]] | None:
        """Return the method that a request means, and what its path holds."""
        for method in self.methods:
            match = method.pattern.fullmatch(path) if method.data["httpMethod"] == verb else None
            if match is not None:
                return method, match.groups()
        return None

    def check(self, schema: str, value: Any, at: str = "") -> None:
        """Accept JSON that fits a schema. Raises ApiError naming the field that does not."""
        if schema:
            self._check(self.schemas[schema], value, at)

    def _check(self, schema: Json, value: Any, at: str) -> None:
        if "$ref" in schema:
            schema = self.schemas[schema["$ref"]]
        kind = schema.get("type", "any")
        if value is None or kind == "any":
            return
        wide = (str, int) if kind in ("string", "integer") else _PLAIN[kind]  # 64-bit numbers are texts
        if not isinstance(value, wide):
            raise _invalid(f"Invalid value at '{at or 'body'}' ({kind}), {json.dumps(value)[:80]}")
        if isinstance(value, list):
            for number, each in enumerate(value):
                self._check(schema["items"], each, f"{at}[{number}]")
        if isinstance(value, dict):
            self._check_object(schema, value, at)

    def _check_object(self, schema: Json, value: Json, at: str) -> None:
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, each in value.items():
            if name not in fields and others is None:
                where = f" at '{at}'" if at else ""
                raise _invalid(f'Unknown name "{name}"{where}: Cannot find field.')
            self._check(fields.get(name) or others or {}, each, f"{at}.{name}".lstrip("."))


class Documents:
    """The APIs in a folder, each in the version that is asked for, read when it is asked for.

    Raises FileNotFoundError: there are none.
    """

    def __init__(self, folder: Path) -> None:
        self._read: dict[Path, Document] = {}
        self._folder = folder
        names = (path for path in sorted(folder.glob("*.v*.json")) if _STABLE.search(path.name))
        self._newest = {path.name.partition(".")[0]: path for path in names}
        if not self._newest:
            raise FileNotFoundError(f"{folder}: holds no discovery documents")

    def find(self, name: str, path: str) -> Document:
        """Return the document of an API in the version that a path begins with, else the newest.

        Raises ApiError: there is no such API.
        """
        version = _VERSION.match(path)
        place = self._folder / f"{name}.{version[1]}.json" if version else self._newest.get(name)
        if place is None or not place.exists():
            place = self._newest.get(name)
        if place is None:
            raise ApiError(Code.NOT_FOUND, f"there is no API {name!r}")
        if place not in self._read:
            self._read[place] = Document(json.loads(place.read_text(encoding="utf-8")))
        return self._read[place]


def _walk(node: Json) -> Iterator[Json]:
    yield from node.get("methods", {}).values()
    for each in node.get("resources", {}).values():
        yield from _walk(each)


def _invalid(text: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, f"Invalid JSON payload received. {text}")
