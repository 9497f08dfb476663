"""Where one control plane keeps its files, and which ports it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from standins.processes.free_ports import HOST, PortTaken, draw_ports, is_free

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one control plane under its folder."""

    home: Path

    @property
    def logs(self) -> Path:
        """One log file per process."""
        return self.home / "logs"

    @property
    def data(self) -> Path:
        """What etcd stores."""
        return self.home / "etcd"

    @property
    def certificates(self) -> Path:
        """The folder of keys and certificates, by the names that webhook servers expect."""
        return self.home / "certificates"

    @property
    def authority(self) -> Path:
        """The certificate that everybody trusts."""
        return self.certificates / "ca.crt"

    @property
    def serving_certificate(self) -> Path:
        """The certificate of API server and webhooks."""
        return self.certificates / "tls.crt"

    @property
    def serving_key(self) -> Path:
        """The key of that certificate."""
        return self.certificates / "tls.key"

    @property
    def signing_key(self) -> Path:
        """The key that signs service account tokens."""
        return self.certificates / "service-accounts.key"

    @property
    def signing_public_key(self) -> Path:
        """The key that verifies them."""
        return self.certificates / "service-accounts.pub"

    @property
    def tokens(self) -> Path:
        """The API server's table of static tokens."""
        return self.home / "tokens.csv"

    @property
    def token_webhook(self) -> Path:
        """Whom the API server asks whose a token is, if that was chosen."""
        return self.home / "token-webhook.kubeconfig"

    @property
    def audit_policy(self) -> Path:
        """What the API server writes into its audit log."""
        return self.home / "audit-policy.json"

    @property
    def audit_log(self) -> Path:
        """Who listed and watched what, one JSON object per line, if that was chosen."""
        return self.logs / "audit.log"

    @property
    def scheduler_settings(self) -> Path:
        """The scheduler's configuration."""
        return self.home / "scheduler.json"

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

    Raises:
        PortTaken: that port is in use, or no free ones were found.
    """
    if api and not is_free(api):
        raise PortTaken(f"port {api} on {HOST} is in use; name another one, or 0 for a free one")
    chosen = iter(draw_ports(5 + 2 * len(controllers), besides=api))
    return Ports(
        api=api or next(chosen),
        etcd=next(chosen),
        etcd_peers=next(chosen),
        controllers=next(chosen),
        scheduler=next(chosen),
        of_controllers={name: ControllerPorts(health=next(chosen), webhooks=next(chosen)) for name in controllers},
    )
