"""Do several threads that read their first objects at once leave the process alive?"""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys, threading
from shared.edges.kubernetes_api import _PAGE, decoder_of
from shared.edges.workload_objects import Pod, read_template

sys.setswitchinterval(1e-6)
together = threading.Barrier(8)
spec = {"spec": {"containers": [{"resources": {"limits": {"google.com/tpu": "4"}}}]}}

def read(number):
    together.wait()
    if number % 2:
        decoder_of(_PAGE[Pod]).decode(b'{"items": [{"status": {"conditions": [{"type": "x"}]}}]}')
    else:
        read_template(spec)

threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


def test_threads_that_read_their_first_objects_at_once_do_not_crash_the_process() -> None:
    """Several processes, because each has one first time. Without the lock most die of SIGSEGV."""
    root = Path(__file__).resolve().parents[2]
    ends = [
        subprocess.run([sys.executable, "-c", SCRIPT], cwd=root, check=False, timeout=60).returncode
        for _ in range(3)
    ]

    assert ends == [0, 0, 0]
