"""Rules of the deployed code that no linter has: the sizes of rooms, and what steers the flow."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.model import errors
from shared.model.decisions import Reason
from shared.shapes.catalogue import GPUS, TPUS
from tests.mutants.mutant import read_by_hand

ROOT = Path(__file__).resolve().parents[2]
DEPLOYED = ("functions", "exporter", "shared")
OUTSIDE = "standins demo benchmarks"
BUDGETS = {
    "exporter": (1_558, 2_000),
    "shared/model": (1_696, 1_600),
    "shared/needs": (1_421, 1_300),
    "shared/plan": (1_632, 1_900),
    "shared/engine": (2_411, 1_950),
    "shared/edges": (2_299, 2_100),
    "shared/kinds": (1_279, 1_300),
    "shared/shapes": (721, 760),
    "demo": (2_499, 2_500),
    "benchmarks": (1_885, 1_900),
    "standins/controlplane": (1_255, 1_900),
    "standins/google": (6_328, 6_350),
    "standins/kit": (1_570, 1_600),
    OUTSIDE: (19_272, 20_000),
    "cli": (4_997, 5_000),
    "tests/infra": (2_089, 1_900),
    "tests/loop": (1_805, 2_200),
    "tests/cli": (1_811, 1_900),
    "tests/rules": (4_231, 5_800),
    "tests/engine": (1_443, 1_900),
    "tests/mutants": (685, 600),
    "tests/simulation": (4_393, 4_000),
    " ".join(DEPLOYED): (13_920, 14_000),
}
"""The lines of each room now, docstrings included, and the goal. The first number only falls."""
MARGIN = 20
"""A room above its goal may have so many more lines: a row of a table is no debt."""
ROOMS = tuple(room for room in BUDGETS if room.partition("/")[0] in DEPLOYED)
COMPLEXITY_MAX, PARAMETERS_MAX, FILE_LINES_MAX = 10, 5, 450
SPLIT = (*ROOMS, "cli", OUTSIDE)
"""Where functions are short."""
JUDGES = ("shared/plan/", "shared/deliver.py", "shared/engine/tell.py", "shared/model/decisions.py")
"""Where a reason may decide what happens next."""
PRODUCT = (*DEPLOYED, "cli", "infra")
PARTICIPLES = {"found", "known", "told", "given", "made", "asked", "sent", "seen", "gone"}
"""They say what was done with a value, and not what it is."""
BRANCHES = (
    ast.If,
    ast.For,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.comprehension,
    ast.match_case,
    ast.Assert,
)
NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def list_modules(rooms: str) -> list[Path]:
    """Return the modules of rooms that are named with a space between them."""
    return sorted(path for room in rooms.split() for path in (ROOT / room).rglob("*.py"))


def count_lines(path: Path) -> int:
    """Return the lines of a file, empty ones and docstrings included."""
    return len(path.read_text().splitlines())


def list_functions(rooms: str) -> Iterator[tuple[str, Function]]:
    """Yield every function of rooms with the place that a person looks for, but those of tests."""
    for path in list_modules(rooms):
        if "tests" in path.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Function):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def list_own(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions inside it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, NESTED):
            yield node
            yield from list_own(node)


def measure_complexity(function: Function) -> int:
    """Return one, and one for each branch and each further operand of a Boolean operator."""
    own = list(list_own(function))
    operands = sum(len(node.values) - 1 for node in own if isinstance(node, ast.BoolOp))
    filters = sum(len(node.ifs) for node in own if isinstance(node, ast.comprehension))
    return 1 + operands + filters + sum(isinstance(node, BRANCHES) for node in own)


def count_parameters(function: Function) -> int:
    """Return how many arguments may be given by position, without self and class."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


@pytest.mark.parametrize("room", BUDGETS)
def test_a_room_keeps_its_budget(room: str) -> None:
    lines = sum(count_lines(path) for path in list_modules(room))

    now, goal = BUDGETS[room]
    most = max(goal, now + MARGIN)

    assert lines <= most, f"{room}: {lines} lines, at most {most}; the goal is {goal}"


@pytest.mark.parametrize("room", SPLIT)
def test_a_function_can_be_held_in_mind_and_its_call_be_read(room: str) -> None:
    """Boolean operators and conditional expressions count as branches do."""
    sizes = {place: (measure_complexity(each), count_parameters(each)) for place, each in list_functions(room)}
    hard = {place: size for place, size in sizes.items() if size[0] > COMPLEXITY_MAX}
    wide = {place: size for place, size in sizes.items() if size[1] > PARAMETERS_MAX}

    assert hard | wide == {}


def test_no_file_is_over_its_limit() -> None:
    sizes = {str(path.relative_to(ROOT)): count_lines(path) for path in list_modules(" ".join((*DEPLOYED, "cli")))}

    assert {path: lines for path, lines in sizes.items() if lines > FILE_LINES_MAX} == {}


def list_names(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the variables, parameters and fields that a module has, each with a line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, node.lineno


def test_a_name_says_what_a_value_is() -> None:
    named = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in list_modules(" ".join((*DEPLOYED, "cli")))
        for name, line in list_names(path)
        if name.strip("_") in PARTICIPLES
    ]

    assert not named, "\n".join(["take a noun of the field: a pool, an error, an outcome", *named])


def test_no_object_stands_for_another_and_no_port_is_taken_for_another_one() -> None:
    """Behind a proxy nobody sees how old a fact is. Ports have one verb's methods: ask by type."""
    proxies = [
        place for place, node in list_functions(" ".join((*DEPLOYED, "cli"))) if node.name.startswith("__getattr")
    ]
    casts = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in list_modules(" ".join(DEPLOYED))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "cast"
    ]

    assert proxies + casts == []


def is_reason(node: ast.expr) -> bool:
    """Return whether an expression is a reason of the closed list, or a collection of such."""
    return any(
        isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "Reason"
        for each in ast.walk(node)
    )


def test_no_reason_steers_the_flow_outside_the_plan() -> None:
    steered = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
        for path in list_modules(" ".join(DEPLOYED))
        if not str(path.relative_to(ROOT)).startswith(JUDGES)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare) and any(is_reason(each) for each in (node.left, *node.comparators))
    ]

    assert not steered, "\n".join(steered)


def test_no_machine_stands_anywhere_else_than_in_the_catalogues() -> None:
    families = [*TPUS.values(), *GPUS.values()]
    names = {machine.name for each in families for machine in each.machines} | TPUS.keys() | GPUS.keys()
    named = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.value}"
        for path in list_modules(" ".join(PRODUCT))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in names
    ]

    assert not named, "a new family is one row of shared/shapes/*.json: " + ", ".join(named)


NAMES_OF_KINDS = re.compile(r"jobset|raycluster|ray\.io|leaderworkerset", re.IGNORECASE)
OF_ALL_KINDS = {"__init__.py", "elastic.py", "kind.py", "objects.py"}
"""The modules of the kinds that may name none; each other one is an entry, or their table."""
KEYS_OF_OWNERS = ("shared/model/labels.py", "shared/model/names.py", "cli/planning/objects.py")
"""Where pools name the kind of their owner, and where `plan` chooses what it reads."""


def test_no_kind_of_workload_is_named_outside_its_entry() -> None:
    named = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in list_modules(" ".join((*DEPLOYED, "cli")))
        if (path.parent.name != "kinds" or path.name in OF_ALL_KINDS) and not str(path).endswith(KEYS_OF_OWNERS)
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if NAMES_OF_KINDS.search(line) and not line.strip().startswith("Example: ")
    ]

    assert named == [], "what is particular to a kind belongs in its entry: docs/kinds.md"


def test_every_reason_is_given_by_some_decision_or_error() -> None:
    sources = "\n".join(
        path.read_text()
        for path in (*(ROOT / "shared").rglob("*.*"), *(ROOT / "cli").rglob("*.py"))
        if path.suffix in (".py", ".json") and path.name != "decisions.py"
    )
    of_errors = {getattr(each, "reason", "") for each in vars(errors).values() if isinstance(each, type)}
    signs = {each: (f"Reason.{each.name}", f'"{each}"', f"\n{each}: ") for each in Reason}
    given = {each for each, texts in signs.items() if any(text in sources for text in texts)}

    assert set(Reason) - given - of_errors == set()


def test_each_mutant_by_hand_has_its_place_and_its_tests() -> None:
    """Who changes the place mends the row: `tests/mutants/by_hand.yaml`."""
    named = {test for each in read_by_hand(ROOT) for test in each.tests}
    absent = [
        test
        for file, _, test in (each.partition("[")[0].partition("::") for each in sorted(named))
        if test and f"def {test}(" not in (ROOT / file).read_text()
    ]

    assert absent == [], "name a test that notices it"
