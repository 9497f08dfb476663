"""The ticker of the local stack calls the sweep when it starts, not only after its interval."""

import queue
import subprocess
import sys

from demo.stack.layout import PROJECT_ROOT
from standins.processes.local_answers import Answer, Asked, LocalAnswers


def test_a_new_stack_is_swept_at_once() -> None:
    """`doctor` says bad of a stack without a sweep."""
    called: queue.SimpleQueue[str] = queue.SimpleQueue()

    def sweep(asked: Asked) -> Answer:
        called.put(asked.headers["User-Agent"])
        return Answer(200)

    with LocalAnswers(sweep) as server:
        words = (sys.executable, "-m", "demo.stack.ticker", f"--url={server.url}/", "--every-seconds=3600")
        with subprocess.Popen(words, cwd=PROJECT_ROOT) as ticker:
            assert called.get(timeout=60) == "Google-Cloud-Scheduler"
            ticker.terminate()

    assert called.empty()
    assert ticker.returncode == 0
