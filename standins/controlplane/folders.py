"""Temporary folders of control planes; those of owners that were killed are removed later."""

import fcntl
import shutil
import tempfile
from pathlib import Path
from typing import Self, TextIO

PREFIX = "tpu-provisioner-controlplane-"
_LOCK = "lock"


class OwnFolder:
    """A temporary folder that is removed with its owner, or else by the next owner of one.

    A lock that the kernel lets go when a process ends says whether an owner lives; process ids are
    used again.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Locked before it gets its name, so that nobody ever finds it unlocked while we live.
        unnamed = self.path / f".{_LOCK}"
        self._lock: TextIO = unnamed.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / _LOCK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder; doing it again does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def remove_abandoned() -> list[Path]:
    """Remove the folders of owners that are gone, and return them."""
    removed = []
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{_LOCK}"):
        try:
            with lock.open() as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # Its owner lives, or it is another user's, or it has just gone.
        shutil.rmtree(lock.parent, ignore_errors=True)
        removed.append(lock.parent)
    return removed
