"""The files of a control plane, and folders of its own that outlive no run."""

import fcntl
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TextIO

from standins.kit.addresses import HOST, PortTaken, draw_ports, is_free


class Layout:
    """The files of one control plane under its folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.logs = home / "logs"
        """One log file per process."""
        self.data = home / "etcd"
        """What etcd stores."""
        self.certificates = home / "certificates"
        """The folder of keys and certificates, by the names that webhook servers expect."""
        self.authority = self.certificates / "ca.crt"
        """The certificate that everybody trusts."""
        self.serving_certificate = self.certificates / "tls.crt"
        """The certificate of API server and webhooks."""
        self.serving_key = self.certificates / "tls.key"
        """The key of that certificate."""
        self.signing_key = self.certificates / "service-accounts.key"
        """The key that signs service account tokens."""
        self.signing_public_key = self.certificates / "service-accounts.pub"
        """The key that verifies them."""
        self.tokens = home / "tokens.csv"
        """The API server's table of static tokens."""
        self.audit_policy = home / "audit-policy.json"
        """What the API server writes into its audit log."""
        self.audit_log = self.logs / "audit.log"
        """Who listed and watched what, one JSON object per line, if that was chosen."""
        self.scheduler_settings = home / "scheduler.json"
        """The scheduler's configuration."""

    def settings(self, controller: str) -> Path:
        """Return the configuration of one of the controllers that are told by file."""
        return self.home / f"{controller}.json"

    def own_certificates(self, controller: str) -> Path:
        """Return the folder of the certificates of a controller that accepts no others."""
        return self.certificates / controller

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of one of the users."""
        return self.home / f"{user}.kubeconfig"

    def log(self, process: str) -> Path:
        """Return the log file of one process."""
        return self.logs / f"{process}.log"

    def create(self) -> None:
        """Make the folders, readable for this user only."""
        for folder in (self.home, self.logs, self.certificates):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPorts:
    """The ports on 127.0.0.1 that one controller may listen on."""

    health: int
    webhooks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports on 127.0.0.1 that the processes listen on."""

    api: int
    etcd: int
    etcd_peers: int
    controllers: int
    scheduler: int
    of_controllers: Mapping[str, ControllerPorts]
    """Of JobSet and the like, by name."""


def choose_ports(api: int = 0, *, controllers: Sequence[str] = ()) -> Ports:
    """Return free ports, all different.

    Args:
        api: The one that the API server must have, 0 for any.
        controllers: Names of the controllers that need some of their own.

    Raises PortTaken: that port is in use, or no free ones were found.
    """
    if api and not is_free(api):
        raise PortTaken(f"port {api} on {HOST} is in use; name another one, or 0 for a free one")
    chosen = iter(each for each in draw_ports(6 + 2 * len(controllers)) if each != api)
    return Ports(
        api=api or next(chosen),
        etcd=next(chosen),
        etcd_peers=next(chosen),
        controllers=next(chosen),
        scheduler=next(chosen),
        of_controllers={name: ControllerPorts(health=next(chosen), webhooks=next(chosen)) for name in controllers},
    )


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
