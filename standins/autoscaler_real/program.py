"""Starts upstream's cluster autoscaler as a plain process, and says which flags it was given.

Flags: https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx

from standins.autoscaler_real.node_groups import NodeGroups
from standins.autoscaler_real.provider import Provider
from standins.kit.addresses import HOST, draw_ports
from standins.kit.processes import Child, Command, describe_last_words

_START_SECONDS_MAX = 120.0
_END_SECONDS = 2.0
_POLL_SECONDS = 0.1
_LAST_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast it acts, in seconds, and on what; the defaults are upstream's own."""

    scan: float = 10
    unneeded: float = 600
    """How long a node must not have been needed before it is removed."""
    delay_after_add: float = 600
    """How long no node is removed after nodes came."""
    first_backoff: float = 300
    """How long a group is left alone after its first failure; it doubles."""
    longest_backoff: float = 1800
    provision: float = 900
    """How long nodes may take before they are given up."""
    recheck: float = 300
    """How long a node that could not be removed is not looked at again."""
    gpu_threshold: float = 0.5
    """Which part of a node's GPUs must be requested for its pods not to be moved."""

    def flags(self) -> tuple[str, ...]:
        """Return the flags that say so."""
        return (
            f"--scan-interval={self.scan:g}s",
            f"--scale-down-unneeded-time={self.unneeded:g}s",
            f"--scale-down-delay-after-add={self.delay_after_add:g}s",
            f"--initial-node-group-backoff-duration={self.first_backoff:g}s",
            f"--max-node-group-backoff-duration={self.longest_backoff:g}s",
            f"--max-node-provision-time={self.provision:g}s",
            f"--unremovable-node-recheck-timeout={self.recheck:g}s",
            f"--scale-down-gpu-utilization-threshold={self.gpu_threshold:g}",
        )


class DidNotStart(Exception):
    """The autoscaler ended or never answered; the text shows its last lines."""


class RealAutoscaler:
    """A running cluster autoscaler, used as a context manager.

    Args:
        program: Upstream's program, built with the tag ``externalgrpc``.
        kubeconfig: Of the cluster that it scales.
        groups: What it scales.
        folder: For its log and configuration.
        pace: How fast it acts.
    """

    def __init__(
        self, program: Path, kubeconfig: Path, groups: NodeGroups, folder: Path, pace: Pace | None = None
    ) -> None:
        self._program, self._kubeconfig, self._folder = program, kubeconfig, folder
        self._provider, self._pace = Provider(groups), pace or Pace()
        self.log = folder / "cluster-autoscaler.log"
        """What it wrote."""

    def __enter__(self) -> Self:
        (port,) = draw_ports(1)
        settings = self._folder / "external-grpc.yaml"
        settings.write_text(f"address: {self._provider.address}\n", encoding="utf-8")
        arguments = (
            str(self._program),
            "--cloud-provider=externalgrpc",
            f"--cloud-config={settings}",
            f"--kubeconfig={self._kubeconfig}",
            "--leader-elect=false",
            f"--address={HOST}:{port}",
            "--v=4",
            *self._pace.flags(),
        )
        self._provider.__enter__()
        command = Command(name="cluster-autoscaler", arguments=arguments, folder=self._folder)
        self._child = Child(command, self.log)
        try:
            self._wait(f"http://{HOST}:{port}/health-check")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._child.end(_END_SECONDS)
        self._provider.__exit__()

    def _wait(self, url: str) -> None:
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not _answers(url):
            if self._child.exit_code is not None or time.monotonic() > deadline:
                raise DidNotStart(f"the cluster autoscaler: {describe_last_words(self.log, _LAST_LINES)}")
            time.sleep(_POLL_SECONDS)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=1.0, trust_env=False).is_success
    except httpx.HTTPError:
        return False
