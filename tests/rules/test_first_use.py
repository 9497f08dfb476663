"""Threads that use a struct of msgspec for the first time at once do not crash the process."""

import pytest

from tests.program_runs import run_python

PROGRAM = """
import sys, threading
sys.setswitchinterval(1e-6)
{imports}
start = threading.Barrier(16)
def work():
    start.wait()
    {call}
threads = [threading.Thread(target=work) for _ in range(16)]
[each.start() for each in threads]
[each.join() for each in threads]
"""
READERS = {
    "a message": (
        "from shared.model.errors import Rejected; from shared.model.messages import parse_message",
        "try: parse_message(b'{}', {'ce-type': 'x'})\n    except Rejected: pass",
    ),
    "a fallback list": (
        "from shared.capacity_texts import read_ways",
        "read_ways('[{spot: true, location: {zones: [us-east5-b]}}, {}]')",
    ),
    "the identity of an object": (
        "from shared.edges.kubernetes import report_unreadable",
        "report_unreadable('a list', b'{}', ValueError())",
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_many_threads_may_be_the_first_to_read(reader: str) -> None:
    imports, call = READERS[reader]
    program = PROGRAM.format(imports=imports, call=call)

    codes = [run_python("-c", program).returncode for _ in range(5)]

    assert codes == [0] * 5, "msgspec learns a struct at its first use: learn it at import"
