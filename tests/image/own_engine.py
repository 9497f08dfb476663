"""A container engine of the tests' own, which ends with them.

As a program, it says whether one can run here; with words, whether it can behind these.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS_MAX = 240.0
OWN_NETWORK = ("unshare", "--net", "--mount")
"""What starts a program in a network of its own."""


@contextmanager
def run_engine(folder: Path, *network: str) -> Iterator[str]:
    """Run an engine that changes nothing outside of its folder: no bridge, no firewall rules.

    Gives its address, once it answers there.

    Args:
        folder: For all that it writes.
        network: What starts it in a network of its own, where it may have a bridge.
    """
    host = f"unix://{folder}/socket"
    command = [*network, "dockerd", f"--host={host}", "--iptables=false", "--ip6tables=false"]
    command += [] if network else ["--bridge=none"]
    command += [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    log = folder / "log"
    with log.open("wb") as output:
        daemon = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not (folder / "socket").exists():
            assert daemon.poll() is None, f"dockerd ended:\n{log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"dockerd is not there:\n{log.read_text()[-2000:]}"
            time.sleep(0.1)
        subprocess.run(["docker", "--host", host, "version"], check=True, capture_output=True, timeout=30)
        yield host
    finally:
        daemon.terminate()
        daemon.wait(timeout=30)
        _unmount(folder)


def _unmount(folder: Path) -> None:
    """Remove what an engine leaves mounted: its containers' network, shared with this machine."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for path in sorted((each for each in mounted if each.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", path], check=True, capture_output=True, timeout=30)


if __name__ == "__main__":
    try:
        with tempfile.TemporaryDirectory(prefix="image-engine-") as home, run_engine(Path(home), *sys.argv[1:]):
            pass
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"no engine can run here: {error}")
