"""What a mutant is, and the two sources that make some."""

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import yaml

from tests.mutants.tests_by_line import PRODUCT

TABLE = Path(__file__).with_name("by_hand.yaml")
SUBPACKAGES = re.compile(r"shared/(model|kinds|shapes|needs|plan|engine|edges)/|infra/\w+/|\w+/")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One small change of one file."""

    group: str
    name: str
    file: str
    begin: int
    """Of the text that is replaced, in characters."""
    end: int
    new: str
    tests: tuple[str, ...] = ()
    """The files of tests that run instead of those by coverage: for scripts and Terraform."""

    @property
    def identity(self) -> str:
        """What stays the same while the mutated line does."""
        return f"{self.group}: {self.name}"

    @property
    def package(self) -> str:
        """The part of the product that it belongs to, of which a score is told."""
        found = SUBPACKAGES.match(self.file)
        return found[0].rstrip("/") if found else "."

    def change(self, text: str) -> str:
        """Return the file's text with the mutant in it."""
        return text[: self.begin] + self.new + text[self.end :]

    def line_in(self, text: str) -> int:
        """Return the number of the first line that it changes."""
        return text.count("\n", 0, self.begin) + 1


def read_by_hand(root: Path) -> list[Mutant]:
    """Return the mutants of the table. Each has its place in the product."""
    mutants = []
    for group, rows in yaml.safe_load(TABLE.read_text()).items():
        for name, (file, old, new, *tests) in rows.items():
            text = (root / file).read_text()
            if text.count(old) != 1:
                raise ValueError(f"{group}: {name}: mend its row, or take it out with what it is about")
            begin = text.index(old)
            mutants.append(Mutant(group, name, file, begin, begin + len(old), new, tuple(tests)))
    return mutants


def draw_operators(root: Path, count: int, seed: int) -> list[Mutant]:
    """Return operator mutants drawn by a seed, in the order of the draw.

    Each has a number that follows from the seed and what stays the same while its line does. So a
    deletion elsewhere leaves it in the draw.
    """
    paths = [path for room in PRODUCT for path in sorted((root / room).rglob("*.py"))]
    every = [mutant for path in paths for mutant in _list_operators(path.read_text(), str(path.relative_to(root)))]
    return sorted(every, key=lambda each: hashlib.sha256(f"{seed} {each.identity}".encode()).digest())[:count]


_COMPARISONS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is not": "is", "is": "is not",
    "not in": "in", "in": "not in",
}  # fmt: skip


def _list_operators(text: str, file: str) -> Iterator[Mutant]:
    lines, seen = text.splitlines(), set[str]()
    for where, node in _walk(ast.parse(text), ""):
        for begin, end, new in _replace(text, node):
            line = lines[text.count("\n", 0, begin)].strip()
            name = f"{file} {where}: {line} [{text[begin:end]} -> {new}]"
            while name in seen:
                name += "'"
            seen.add(name)
            yield Mutant("random", name, file, begin, end, new)


def _walk(node: ast.AST, where: str) -> Iterator[tuple[str, ast.AST]]:
    """Return all nodes that run, each with the name of its function or class.

    Those in f-strings are left out: Python 3.11 does not say where they stand.
    """
    if isinstance(node, ast.JoinedStr):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        where = f"{where}.{node.name}".lstrip(".")
    yield where, node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child, where)


def _replace(text: str, node: ast.AST) -> Iterator[tuple[int, int, str]]:
    """Return where a node is replaced, and by what."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and not ast.unparse(node).startswith("__name__"):
        between = _find_span(text, node.left)[1], _find_span(text, node.comparators[0])[0]
        plain = re.search(r"is not|not in|[<>=!]=|[<>]|is|in", text[slice(*between)])
        if plain:
            yield between[0] + plain.start(), between[0] + plain.end(), _COMPARISONS[plain[0]]
    elif isinstance(node, ast.BoolOp):
        between = _find_span(text, node.values[0])[1], _find_span(text, node.values[1])[0]
        plain = re.search(r"\b(and|or)\b", text[slice(*between)])
        if plain:
            yield between[0] + plain.start(), between[0] + plain.end(), "or" if plain[0] == "and" else "and"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        begin = _find_span(text, node)[0]
        yield begin, begin + len("not "), ""
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        new = str(not node.value) if isinstance(node.value, bool) else str(node.value + 1)
        yield *_find_span(text, node), new


def _find_span(text: str, node: ast.expr) -> tuple[int, int]:
    """Return where an expression begins and ends, in characters."""
    lines, begins = _split(text)

    def count(line: int, column: int) -> int:
        return begins[line - 1] + len(lines[line - 1].encode()[:column].decode())

    return count(node.lineno, node.col_offset), count(node.end_lineno or 0, node.end_col_offset or 0)


@lru_cache(maxsize=2)
def _split(text: str) -> tuple[list[str], list[int]]:
    """Return the lines of a text, and where each begins."""
    lines = text.splitlines(keepends=True)
    return lines, list(accumulate(map(len, lines), initial=0))
