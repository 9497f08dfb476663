"""The marks `proves` as a document: which test proves which cell of kinds, on which controller.

``python -m tests.kinds.proofs --write`` writes docs/kinds-proof.md anew. The marks are read from
the sources, so that nothing has to be started; a collection of the tests checks that a mark names a
controller that its test runs.
"""

import argparse
import ast
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from shared.core.kinds.table import KIND_NAMES
from standins.controlplane.recipe import ADDITIONS, PRODUCTS
from tests.kinds.unproved import UNPROVED

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/kinds-proof.md"
MARK = "proves"
CELLS = ("leader pods", "slice", "over when", "released when")
"""The columns of docs/kinds.md that say something of behaviour."""
FURTHER_CELLS = ("refused", "queued")
"""What scenarios may prove besides: bad input, and waiting for a queue; not every kind has such a
scenario."""
EMBEDDED = "embedded"
"""What a mark calls the embedded cluster, where it calls a real controller by its name in the
recipe."""
RULES = ("tests/unit/", "tests/component/")
"""Where tests run no controller: the rules alone, on objects as a controller writes them."""
_PRODUCTS = {product.name: product for product in (*PRODUCTS, *ADDITIONS)}
_TITLES = {"kuberay": "KubeRay", "lws": "LeaderWorkerSet", "kueue": "Kueue", "jobset": "JobSet"}
_HEAD = """# What proves the table of kinds

Written by `python -m tests.kinds.proofs --write` from the marks on the tests; do not edit. The
table itself: [kinds.md](kinds.md). The lives of a JobSet, one by one: [lives.md](lives.md).

A scenario runs the whole loop, with the kind's own controller and a simulated kubelet. *On* says
which controllers are real programs, and at which version. Kubernetes runs under all of them. *The
embedded cluster* is our own [stand-in](local-cluster.md). *The rules alone* means a test without
any controller, on objects as the controller's sources write them.

| kind | cells | scenario | on |
|---|---|---|---|
"""
_TAIL = """
To add a line, mark the test: `@pytest.mark.proves("RayCluster", "released when",
on="kuberay-1.6")`. The cells are those of the table, besides `refused` and `queued`. `on` is a name
of `standins/controlplane/recipe.py`, `"embedded"`, or several of these; a test of the rules alone
(`tests/unit`, `tests/component`) has none. Then run the command above. A cell that nothing proves
is in `tests/kinds/unproved.py` with the reason. A test keeps marks, document and that list
together.
"""


class BadMark(Exception):
    """A mark says what it may not; the text says where and what would be valid."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Proof:
    """One mark on one test."""

    kind: str
    cell: str
    file: str
    test: str
    on: tuple[str, ...] = ()


def check_mark(where: str, arguments: Sequence[object], on: object = ()) -> tuple[str, str, tuple[str, ...]]:
    """Return what a mark says: kind, cell, and the controllers it names.

    Raises BadMark: it names what there is not.
    """
    if len(arguments) != 2:
        raise BadMark(f"{where}: {MARK}{tuple(arguments)}: valid: a kind and a cell")
    kind, cell = map(str, arguments)
    names = (on,) if isinstance(on, str) else tuple(map(str, on)) if isinstance(on, tuple) else ()
    for value, valid in (
        (kind, KIND_NAMES),
        (cell, CELLS + FURTHER_CELLS),
        *((name, (*_PRODUCTS, EMBEDDED)) for name in names),
    ):
        if value not in valid:
            raise BadMark(f"{where}: {MARK}: {value!r} is not valid; valid: {', '.join(valid)}")
    if bool(names) == where.startswith(RULES):
        raise BadMark(
            f"{where}: {MARK}: a scenario says `on` which controllers it runs; a test of the rules does not"
        )
    return kind, cell, names


def list_proofs(folder: Path = ROOT / "tests") -> list[Proof]:
    """Return all marks of the tests of a folder, sorted as the document has them.

    Raises BadMark: one cannot be read, or names what there is not.
    """
    found = [proof for path in sorted(folder.rglob("test_*.py")) for proof in _read_file(path)]
    order = {kind: number for number, kind in enumerate(KIND_NAMES)}
    cells = {cell: number for number, cell in enumerate(CELLS + FURTHER_CELLS)}
    return sorted(
        found, key=lambda proof: (order[proof.kind], cells[proof.cell], not proof.on, proof.file, proof.test)
    )


def find_gaps(proofs: Iterable[Proof], unproved: Mapping[tuple[str, str], str]) -> list[str]:
    """Return what is wrong between marks and unproved cells: each cell is in one of the two."""
    proved = {(proof.kind, proof.cell) for proof in proofs}
    wanted = {(kind, cell) for kind in KIND_NAMES for cell in CELLS}
    named = {cell: " / ".join(cell) for cell in wanted | set(unproved)}
    return sorted(
        [
            f"{named[each]}: neither marked nor in tests/kinds/unproved.py"
            for each in wanted - proved - set(unproved)
        ]
        + [f"{named[each]}: in tests/kinds/unproved.py, and marked" for each in proved & set(unproved)]
        + [f"{named[each]}: in tests/kinds/unproved.py, and no cell" for each in set(unproved) - wanted]
    )


def render(proofs: Sequence[Proof], unproved: Mapping[tuple[str, str], str]) -> str:
    """Return the document."""
    rows = []
    for kind in KIND_NAMES:
        cells: dict[tuple[str, str], list[str]] = {}
        for proof in (each for each in proofs if each.kind == kind):
            cells.setdefault((_show_test(proof), show_controllers(proof.on)), []).append(proof.cell)
        scenarios: dict[tuple[str, str], list[str]] = {}
        for (test, on), shown in cells.items():
            scenarios.setdefault((", ".join(shown), on), []).append(test)
        rows += [(kind, shown, "<br>".join(tests), on) for (shown, on), tests in scenarios.items()]
        rows += [
            (kind, cell, f"not proved: {reason}", "nothing")
            for (of, cell), reason in sorted(unproved.items())
            if of == kind
        ]
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows) + _TAIL


def show_controllers(names: Iterable[str]) -> str:
    """Return controllers with their versions, as people read them."""
    shown = [_show_controller(name) for name in names]
    return ", ".join(shown) or "the rules alone"


def _show_controller(name: str) -> str:
    if name == EMBEDDED:
        return "the embedded cluster"
    stem = name.partition("-")[0]
    return f"{_TITLES.get(stem, stem.capitalize())} {_PRODUCTS[name].version.removeprefix('v')}"


def _show_test(proof: Proof) -> str:
    sentence = proof.test.removeprefix("test_").replace("_", " ")
    return f"[{sentence}](../{proof.file})"


def _read_file(path: Path) -> Iterable[Proof]:
    tree = ast.parse(path.read_text())
    file = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    constants = _read_constants(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in (each for each in node.decorator_list if _is_mark(each)):
                where = f"{file}:{call.lineno}"
                values = [_read_value(each, constants, where) for each in call.args]
                given = {each.arg: _read_value(each.value, constants, where) for each in call.keywords}
                kind, cell, on = check_mark(where, values, given.get("on", ()))
                yield Proof(kind=kind, cell=cell, file=file, test=node.name, on=on)


def _is_mark(node: ast.expr) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == MARK


def _read_constants(tree: ast.Module) -> dict[str, object]:
    """Return the module's own names for texts, with which a mark may name its controller."""
    found: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                names, values = _pair(target, node.value)
                for name, value in zip(names, values, strict=False):
                    if isinstance(name, ast.Name) and isinstance(value, ast.Constant | ast.Tuple):
                        found[name.id] = _try_literal(value)
    return found


def _pair(target: ast.expr, value: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return target.elts, value.elts
    return [target], [value]


def _try_literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _read_value(node: ast.expr, constants: Mapping[str, object], where: str) -> object:
    if isinstance(node, ast.Tuple):
        return tuple(_read_value(each, constants, where) for each in node.elts)
    value = constants.get(node.id) if isinstance(node, ast.Name) else _try_literal(node)
    if value is None:
        raise BadMark(
            f"{where}: {MARK}: {ast.unparse(node)} is not valid; valid: a text, or a constant of the module"
        )
    return value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/kinds-proof.md")
    options = parser.parse_args()
    try:
        text = render(list_proofs(), UNPROVED)
    except BadMark as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    if options.write:
        DOCUMENT.write_text(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
