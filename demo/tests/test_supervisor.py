"""The supervisor: restarts, obituaries, and an end that leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from demo.stack.layout import Layout
from demo.stack.supervisor import ProcessDied, Supervisor
from standins.processes.child import Command, last_lines
from tests.lives.cloud import wait_for

SLEEPER = "import time; print('started', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"
NEST = f"""
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], start_new_session=True).pid, flush=True)
time.sleep(600)
"""
CRASHER = "print('the reason', flush=True); raise SystemExit(3)"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path)
    layout.create()
    return layout


@pytest.fixture
def supervisor(layout: Layout) -> Iterator[Supervisor]:
    with Supervisor(layout, restarts=True) as supervisor:
        yield supervisor


def command(name: str, code: str, *, restartable: bool = True) -> Command:
    return Command(name=name, arguments=(sys.executable, "-c", code), folder=Path.cwd(), restartable=restartable)


def runs(pid: int) -> bool:
    """Return whether a process runs; one that only waits to be reaped does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_killed_process_comes_back_with_its_log_kept(supervisor: Supervisor, layout: Layout) -> None:
    supervisor.start(command("one", SLEEPER))
    wait_for("one line", lambda: len(last_lines(layout.log("one"), 9)) == 1)
    first = supervisor.states()[0].pid
    supervisor.kill("one")
    wait_for("another process", lambda: supervisor.states()[0].pid != first)
    wait_for("a second line", lambda: len(last_lines(layout.log("one"), 9)) == 2)
    supervisor.check()
    assert supervisor.states()[0].restarts == 1


def test_a_process_that_may_not_restart_is_named_with_its_last_lines(supervisor: Supervisor) -> None:
    supervisor.start(command("broker", CRASHER, restartable=False))
    wait_for("an exit code", lambda: supervisor.states()[0].exit_code == 3)
    with pytest.raises(ProcessDied, match=r"'broker' ended with code 3(.|\n)*the reason"):
        supervisor.check()


def test_a_crash_loop_backs_off(supervisor: Supervisor) -> None:
    started = time.monotonic()
    supervisor.start(command("crasher", CRASHER))
    wait_for("three restarts", lambda: supervisor.states()[0].restarts >= 3)
    # From the very start: when one restart is seen, the next one may be due already. The pauses
    # double from 0.1 s.
    assert time.monotonic() - started > 0.1 + 0.2 + 0.4


def test_restart_ends_politely_and_starts_again(supervisor: Supervisor) -> None:
    supervisor.start(command("one", SLEEPER))
    first = supervisor.states()[0].pid
    supervisor.restart("one")
    assert supervisor.states()[0].pid != first
    assert not runs(first)


def test_an_unknown_name_is_refused_with_the_known_ones(supervisor: Supervisor) -> None:
    supervisor.start(command("one", SLEEPER))
    with pytest.raises(KeyError, match="there are: one"):
        supervisor.kill("two")


def test_the_end_kills_what_does_not_listen(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.stack.supervisor._END_SECONDS", 5)
    with Supervisor(layout) as supervisor:
        supervisor.start(command("stubborn", STUBBORN))
        supervisor.start(command("polite", SLEEPER))
        wait_for("two lines", lambda: all(last_lines(layout.log(name), 1) for name in ("stubborn", "polite")))
        pids = [state.pid for state in supervisor.states()]
        assert supervisor.end_all() == ["stubborn"]
    assert not any(runs(pid) for pid in pids)


def test_what_does_not_listen_takes_along_all_that_it_has_started(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo.stack.supervisor._END_SECONDS", 0.1)
    with Supervisor(layout) as supervisor:
        supervisor.start(command("nest", NEST))
        # Which of the two writes first is not said.
        wait_for("two lines", lambda: len(lines := last_lines(layout.log("nest"), 2)) == 2 and "started" in lines)
        below = next(int(line) for line in last_lines(layout.log("nest"), 2) if line.isdigit())
        assert runs(below)
        assert supervisor.end_all() == ["nest"]
    # It has no memory any more; that it is a zombie may show a moment later.
    wait_for("the end", lambda: not runs(below))


def test_children_do_not_outlive_a_killed_parent(layout: Layout) -> None:
    code = f"""
import sys, time
from pathlib import Path
from standins.processes.child import Command
from demo.stack.layout import Layout
from demo.stack.supervisor import Supervisor
with Supervisor(Layout(Path({str(layout.home)!r}))) as supervisor:
    supervisor.start(Command(name="c", arguments=(sys.executable, "-c", {SLEEPER!r}), folder=Path.cwd()))
    print(supervisor.states()[0].pid, flush=True)
    time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_for("a line", lambda: last_lines(layout.log("c"), 1) == ["started"])
        os.kill(parent.pid, signal.SIGKILL)
    wait_for("the end", lambda: not runs(child))
