"""Each mutant by hand has its place, and of a tiny product the right mutants are caught."""

import subprocess
from pathlib import Path

from tests.mutants.judging import judge, write_table
from tests.mutants.mutant import Mutant, draw_operators
from tests.mutants.tests_by_line import measure_tests
from tests.mutants.trees import copy_tree

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = """
def is_small(number):
    return number < 3

def is_large(number):
    return number > 5
"""
TESTS = """
from exporter.sizes import is_small

def test_small():
    assert is_small(2)
    assert not is_small(3)
"""


def test_a_mutant_is_caught_survives_or_is_not_covered(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    for name, text in (("exporter/sizes.py", PRODUCT), ("tests/rules/test_sizes.py", TESTS)):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    subprocess.run(["git", "init", "-q", repository], check=True)
    subprocess.run(["git", "-C", repository, "add", "."], check=True)
    tree = copy_tree(repository, tmp_path / "copy")

    tree.expect_sound()
    coverage = measure_tests([tree], ("rules",))
    drawn = sorted(draw_operators(tree.root, 10, seed=1), key=lambda each: each.begin)
    same = Mutant(
        "hand", "other words", "exporter/sizes.py", PRODUCT.index("number <"), PRODUCT.index(" < 3"), "(number)"
    )
    verdicts = [judge(each, tree, coverage) for each in (*drawn, same)]

    assert [each.outcome for each in verdicts] == ["caught", "caught", "not covered", "not covered", "survived"]
    assert (verdicts[0].by, verdicts[0].test) == ("rules", "tests/rules/test_sizes.py::test_small")
    assert (tree.root / "exporter/sizes.py").read_text() == PRODUCT
    assert "exporter" in "\n".join(write_table(verdicts))
