#!/usr/bin/env python3
"""Removes every node pool that this provisioner created, and counts down.

Pools of the Go TPU Provisioner, which the functions serve too, are named and left: it may still be
at work. So are pools whose label names another deployment than ``--deployment``, because two
deployments can have served one cluster. Without ``--force`` nothing is removed while a workload
runs, or where a cluster cannot be asked about it. With ``--force`` no cluster is asked: GKE's own
list and the labels of the pools tell which ones the installation made, and all of these are to go.

The environment's own cluster is destroyed after this, with its static pools and those of others. So
pods of people on any of its pools count as workloads that run, also those without accelerators. If
the build that created the cluster failed, Terraform's outputs do not say how to reach the cluster.
Then each pool that somebody created there counts as in use.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":  # as a script, only this folder is on the import path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from infra.build.check_state import find_own_cluster
from infra.build.outputs import ENVIRONMENT
from shared.edges.clock import SystemClock
from shared.edges.cluster import KubernetesCluster
from shared.edges.gke import GkeTakes, open_apis
from shared.edges.google import GoogleAccount
from shared.model.errors import ClusterNotFound, ProvisionerError, Retryable
from shared.model.pools import NodePool, PoolStatus
from shared.settings import ClusterSettings, Credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from shared.engine.outside import Cluster, PoolTakes
    from shared.model.times import Clock
    from shared.model.workloads import PodView

GKE = "https://container.googleapis.com"
ENDPOINT_VARIABLE = "TPU_PROVISIONER_GKE_ENDPOINT"
CREDENTIALS_VARIABLE = "TPU_PROVISIONER_CREDENTIALS"
"""As the functions read them."""
GKES_OWN_POOL = "default-pool"
"""GKE creates a cluster with it. Terraform deletes it once the cluster is there."""
NOT_OF_PEOPLE = re.compile(
    r"kube-.*|gke-managed-.*|gke-gmp-system|gmp-(public|system)|tpu-provisioner|jobset-system|kueue-system"
)
"""Namespaces of GKE, and of what the build installs: their pods go with the cluster.

Kubernetes keeps its prefix for itself; people may have any other:
https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/
"""
LEFT_SECONDS = 900
"""A pod that has been ending for longer has been left, and holds nothing."""
LISTINGS_MAX = 6
"""How often one list is asked for, when GKE fails to answer."""


class StillThere(Exception):
    """Pools are left after the time that was given; the text says how many."""


@dataclass
class Removal:
    """The removal of one deployment's pools."""

    pools: PoolTakes
    clusters: Mapping[str, Cluster]
    """Those that are served, by name."""
    say: Callable[[str], None]
    clock: Clock = field(default_factory=SystemClock)
    sleep: Callable[[float], None] = time.sleep
    pause_seconds: float = 10.0
    destroyed: str = ""
    """The cluster that is destroyed with all of its pools, if there is one."""
    deployment: str = ""
    """Whose pools these are. Pools of the Go program name no deployment, and count as its own."""
    _said: set[str] = field(default_factory=set, init=False)

    def list_running(self) -> list[str]:
        """Return one line for each pool whose workload runs, or could not be asked about."""
        uses = [(cluster, pool, self._find_use(cluster, pool)) for cluster, pool in self._list_ours()]
        uses += [(self.destroyed, pool, self._find_use_of_others(pool)) for pool in self._list_others()]
        return [f"{cluster}: node pool {pool.name}: {why}" for cluster, pool, why in uses if why]

    def remove(self, timeout_seconds: float) -> int:
        """Delete all pools of ours and return how many there were, when the last is gone.

        Raises:
            StillThere: some are left after the timeout.
            Denied: a permission is missing.
        """
        seen: set[tuple[str, str]] = set()
        end = self.clock.now() + timeout_seconds
        while True:
            left = self._list_ours()
            seen |= {(cluster, pool.name) for cluster, pool in left}
            if not left:
                return len(seen)
            waiting = [reason for each in left if (reason := self._delete(*each))]
            self._report(len(left), len(seen), waiting)
            if self.clock.now() >= end:
                raise StillThere(f"{len(left)} of {len(seen)} node pools are left; run this again to continue")
            self.sleep(self.pause_seconds)

    def _list_ours(self) -> list[tuple[str, NodePool]]:
        found = []
        for cluster in self.clusters:
            pools = self._list(cluster)
            found += [(cluster, pool) for pool in pools if self._is_ours(pool)]
            for pool in pools:
                if pool.owner and not self._is_ours(pool):
                    by_go = not pool.owner.uid
                    whose = "the Go TPU Provisioner" if by_go else f"the deployment {pool.deployment}"
                    self._report_once(f"{cluster}: node pool {pool.name} belongs to {whose} and is kept")
        return found

    def _is_ours(self, pool: NodePool) -> bool:
        is_of_another = pool.deployment and self.deployment and pool.deployment != self.deployment
        return bool(pool.owner and pool.owner.uid and not is_of_another)

    def _delete(self, cluster: str, pool: NodePool) -> str:
        """Submit one deletion and return why it must wait, in words; empty when it is accepted."""
        if pool.status == PoolStatus.STOPPING:
            return ""
        try:
            self.pools.delete(cluster, pool.name)
        except Retryable as error:
            return f"{pool.name}: {error}"
        return ""

    def _find_use(self, cluster: str, pool: NodePool) -> str:
        owner, live = pool.owner, self.clusters[cluster]
        try:
            workload = live.get_workload(*owner.key) if owner else None
            pods = self._list_pods(live, pool)
        except ProvisionerError as error:
            return f"its workload cannot be read: {error}"
        over = workload is None or workload.terminal or workload.deleting or workload.suspended
        if owner and workload and workload.uid == owner.uid and not over:
            return f"{owner.kind} {owner.namespace}/{owner.name} runs"
        return f"{len(pods)} pods run on it" if pods else ""

    def _list_pods(self, live: Cluster, pool: NodePool) -> Sequence[PodView]:
        """Return the pods on a pool's nodes, without those that were left when they ended."""
        due = self.clock.now() - LEFT_SECONDS
        bound = [pod for node in live.list_nodes([pool.name]) for pod in live.list_bound_pods(node.name)]
        return [pod for pod in bound if pod.deleting_since is None or pod.deleting_since >= due]

    def _list_others(self) -> list[NodePool]:
        """Return the pools that are not ours in the cluster that is destroyed."""
        pools = self._list(self.destroyed) if self.destroyed else []
        return [pool for pool in pools if not self._is_ours(pool)]

    def _find_use_of_others(self, pool: NodePool) -> str:
        live = self.clusters.get(self.destroyed)
        if live is None:
            reason = "its pods cannot be read, because the build that created this cluster failed"
            return "" if pool.name == GKES_OWN_POOL else reason
        try:
            pods = self._list_pods(live, pool)
        except ProvisionerError as error:
            return f"its pods cannot be read: {error}"
        used = [
            f"{pod.namespace}/{pod.name}"
            for pod in pods
            if pod.template.units or not NOT_OF_PEOPLE.fullmatch(pod.namespace)
        ]
        return f"{len(used)} pods run on it, such as {min(used)}, and this cluster is destroyed" if used else ""

    def _list(self, cluster: str) -> list[NodePool]:
        """Return all pools of a cluster, in spite of some failures in a row; none if it is gone."""
        try:
            for _ in range(LISTINGS_MAX - 1):
                try:
                    return [*self.pools.list(cluster)]
                except Retryable as error:
                    self.say(f"waiting: {error}")
                    self.sleep(self.pause_seconds)
            return [*self.pools.list(cluster)]
        except ClusterNotFound:
            return []  # its pools are gone with it

    def _report(self, left: int, seen: int, waiting: list[str]) -> None:
        self.say(f"{left} of {seen} node pools left")
        if waiting:
            self._report_once(f"{len(waiting)} cannot be deleted yet, such as {waiting[0]}")

    def _report_once(self, text: str) -> None:
        if text not in self._said:
            self.say(text)
            self._said.add(text)


def read_clusters(outputs: Mapping[str, Any]) -> dict[str, ClusterSettings]:
    """Return the full names of the served clusters, from Terraform's outputs."""
    served = outputs.get("clusters", {}).get("value") or {}
    return {each["path"]: ClusterSettings(private=each["private"]) for each in served.values()}


def find_destroyed(outputs: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    """Return the full name of the cluster that Terraform made, and destroys; empty without one."""
    served = outputs.get("clusters", {}).get("value") or {}
    return str(served.get(ENVIRONMENT, {}).get("path", "")) or find_own_cluster(state)


def open_gke(
    clusters: Mapping[str, ClusterSettings], environ: Mapping[str, str]
) -> tuple[PoolTakes, dict[str, Cluster]]:
    """Return GKE and the served clusters; the account is found as the functions find it."""
    account = GoogleAccount(Credentials(environ.get(CREDENTIALS_VARIABLE, Credentials.GOOGLE)))
    pools = GkeTakes(environ.get(ENDPOINT_VARIABLE, GKE), account)
    apis = open_apis(clusters, pools, account)
    return pools, {name: KubernetesCluster(api) for name, api in apis.items()}


def run(removal: Removal, *, check: bool, force: bool, timeout_seconds: float) -> int:
    """Check, and unless that is all, remove; return the exit code."""
    running = [] if force else removal.list_running()
    if running:
        for line in running:
            removal.say(f"  {line}")
        removal.say(
            f"error: {len(running)} node pools are in use; end the workloads, or set FORCE=true to delete "
            "the pools although workloads use them"
        )
        return 1
    if check:
        removal.say("No workload uses a node pool of the provisioner")
        return 0
    count = removal.remove(timeout_seconds)
    removal.say(f"0 of {count} node pools left" if count else "There are no node pools of the provisioner")
    return 0


def main() -> int | str:
    """Do it for the clusters of Terraform's outputs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outputs", type=Path, required=True, help="the output of `terraform output -json`")
    parser.add_argument("--state", type=Path, required=True, help="the output of `terraform state pull`")
    parser.add_argument("--kept", type=Path, help="the clusters that another deployment serves, a line each")
    parser.add_argument("--deployment", default="", help="PROJECT_NAME: keep the pools of others (default: none)")
    parser.add_argument("--check", action="store_true", help="remove nothing: only report whether workloads run")
    parser.add_argument("--force", action="store_true", help="remove pools although workloads run on them")
    parser.add_argument("--timeout-seconds", type=float, default=3000.0, help="stop after this (default: 3000)")
    parser.add_argument("--pause-seconds", type=float, default=10.0, help="pause between two checks (default: 10)")
    arguments = parser.parse_args()
    outputs = json.loads(arguments.outputs.read_text(encoding="utf-8"))
    state = json.loads(arguments.state.read_text(encoding="utf-8") or "{}")
    kept = arguments.kept.read_text(encoding="utf-8").split() if arguments.kept else []
    clusters = {name: each for name, each in read_clusters(outputs).items() if name not in kept}
    pools, served = open_gke(clusters, os.environ)
    removal = Removal(
        pools,
        served,
        say=_say,
        pause_seconds=arguments.pause_seconds,
        destroyed=find_destroyed(outputs, state),
        deployment=arguments.deployment,
    )
    try:
        return run(
            removal, check=arguments.check, force=arguments.force, timeout_seconds=arguments.timeout_seconds
        )
    except (ProvisionerError, StillThere) as error:
        return f"error: {error}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
