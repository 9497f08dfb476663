"""Ten workloads that ask at the same time, in a deployment with limits."""

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

from shared.core.decide.limits import count_pool_chips
from shared.core.workloads import PodView
from shared.deliver import deliver
from tests.builders import CLUSTER, NOW, a_demand_event, a_jobset, a_pod, a_push
from tests.component.turns import TakingTurnsCluster, TakingTurnsPools, Turns
from tests.component.world import Records, World

WORKLOADS, CHIPS = 10, 16
"""Workloads that ask at once, of one slice each, and the chips of a slice."""


class Crowd:
    """Ten JobSets, each with a leader that waits, in a deployment with limits."""

    def __init__(self, seed: int, *, crashes: int = 0, namespaces: int = 1, **limits: Any) -> None:
        self.world = World(Records())
        self.cluster, self.pools = TakingTurnsCluster(), TakingTurnsPools()
        self.world.pools, self.world.clusters = self.pools, {CLUSTER: self.cluster}
        self.world.cluster = self.cluster
        self.world.use(**limits)
        self.pods = [self.add(number, f"team-{number % namespaces}") for number in range(WORKLOADS)]
        self.turns = Turns(seed, crashes=crashes)
        self.cluster.turns = self.pools.turns = self.turns

    def add(self, number: int, namespace: str) -> PodView:
        name, uid = f"job-{number}", f"{number:08d}-0000-0000-0000-000000000000"
        jobset = dataclasses.replace(a_jobset(name=name, uid=uid), namespace=namespace)
        made = a_pod(jobset=name, uid=f"pod-{number}", unschedulable_since=NOW - 60)
        template = dataclasses.replace(
            made.template,
            labels={key: value if "uid" not in key else uid for key, value in made.template.labels.items()},
        )
        pod = dataclasses.replace(made, namespace=namespace, template=template)
        self.cluster.add(jobset, pod)
        return pod

    def message(self, pod: PodView) -> Callable[[], object]:
        return lambda: deliver("provision", a_push(a_demand_event(pod)), self.world.ports)

    def count_calls(self) -> Counter[str]:
        """Return how often each GKE method and each cluster method that costs a call was called."""
        return Counter(method for method, _ in self.pools.calls) + Counter(self.cluster.asked)

    def run(self, *others: Callable[[], object], messages: int = 1) -> None:
        self.turns.run([*(self.message(pod) for pod in self.pods for _ in range(messages)), *others])

    @property
    def chips(self) -> int:
        return sum(count_pool_chips(pool) for pool in self.pools.pools.values())

    @property
    def gpus(self) -> int:
        """The GPUs of all pools, with their present sizes."""
        return sum(self.pools.sizes.get(name, each.node_count) for (_, name), each in self.pools.pools.items())
