"""The documents of the kinds say what the table and the marks on the tests say."""

from pathlib import Path

import pytest

from infra.build.write_kinds import DOCUMENT, write_table
from shared.core.kinds.table import KIND_NAMES
from tests.kinds import proofs
from tests.kinds.unproved import UNPROVED

KIND = KIND_NAMES[0]


def test_the_document_of_the_kinds_is_the_table() -> None:
    page = DOCUMENT.read_text()

    assert page == write_table(page), "run: python -m infra.build.write_kinds"


def test_the_document_of_the_proofs_is_the_marks() -> None:
    answer = proofs.render(proofs.list_proofs(), UNPROVED)

    assert proofs.DOCUMENT.read_text() == answer, "run: python -m tests.kinds.proofs --write"


def test_every_cell_is_proved_or_says_why_not() -> None:
    assert proofs.find_gaps(proofs.list_proofs(), UNPROVED) == []


def test_a_cell_without_any_proof_is_missed_and_a_proved_one_needs_no_excuse() -> None:
    proof = proofs.Proof(kind=KIND, cell="slice", file="tests/kinds/test_x.py", test="test_x", on=("jobset",))
    unproved = dict.fromkeys([(kind, cell) for kind in KIND_NAMES for cell in proofs.CELLS], "because")

    assert proofs.find_gaps([proof], unproved) == [f"{KIND} / slice: in tests/kinds/unproved.py, and marked"]
    del unproved[KIND, "over when"], unproved[KIND, "slice"]
    assert proofs.find_gaps([proof], unproved) == [
        f"{KIND} / over when: neither marked nor in tests/kinds/unproved.py"
    ]


def test_a_mark_is_read_with_the_constants_of_its_module(tmp_path: Path) -> None:
    mark = f'@pytest.mark.proves("{KIND}", "slice", on=(RAY, "embedded"))'
    (tmp_path / "test_x.py").write_text(f'RAY, OTHER = "kuberay-1.6", ("lws-0.7",)\n{mark}\ndef test_x(): ...\n')

    (found,) = proofs.list_proofs(tmp_path)
    assert found == proofs.Proof(
        kind=KIND, cell="slice", file="test_x.py", test="test_x", on=("kuberay-1.6", "embedded")
    )
    assert proofs.show_controllers(found.on).startswith("KubeRay 1.6.")


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (f'"{KIND}", "colour", on="embedded"', "'colour' is not valid; valid: leader pods"),
        ('"Kettle", "slice", on="embedded"', "'Kettle' is not valid"),
        (f'"{KIND}", "slice", on="kuberay-0.1"', "'kuberay-0.1' is not valid"),
        (f'"{KIND}", "slice"', "says `on` which controllers"),
        (f'"{KIND}", on="embedded"', "a kind and a cell"),
        (f'"{KIND}", "slice", on=elsewhere()', "a constant of the module"),
    ],
)
def test_a_mark_that_says_what_there_is_not_is_refused_by_name(tmp_path: Path, mark: str, message: str) -> None:
    (tmp_path / "test_x.py").write_text(f"@pytest.mark.proves({mark})\ndef test_x(): ...\n")

    with pytest.raises(proofs.BadMark, match=message.replace("(", r"\(")):
        proofs.list_proofs(tmp_path)
