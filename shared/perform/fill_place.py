"""Gives the place of an operation that has ended to the slice that has waited longest for one.

GKE runs a limited number of operations for a cluster at one time, and refuses a create above it. So
one create is sent for each operation that ends. A slice whose creation has failed before is left to
the sweep, which keeps the pauses.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict, deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from shared.core.decide.demands import find_claim
from shared.core.decisions import Verdict
from shared.core.errors import ProvisionerError
from shared.core.kinds.table import find_kind_of_pod
from shared.perform.answer_waiting import answer_pods
from shared.perform.creation_list import Creations
from shared.perform.look import is_fresh_leader, open_look, share_reads
from shared.perform.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from shared.core.ports import Ports
    from shared.core.workloads import PodView
    from shared.perform.answer_waiting import Answers
    from shared.perform.look import Look

T = TypeVar("T")
LEADERS_MAX = 10_000
"""The most waiting leaders that one entry is compared with; the sweep answers the others."""
LIST_SECONDS = 2.0
"""How long a list of them serves. A leader in it is read again before it is answered."""
ANSWERS_MAX = 3
"""The most slices that are answered for one place, if the first ones do not need it any more."""
_LOG = logging.getLogger("places")


def share_list(key: str, read: Callable[[], T], ports: Ports) -> T:
    """Return what is read for a key; when many operations end at once, one list serves them all."""
    return ports.lists.share(key, read) if ports.lists else read()


def list_leaders(cluster: str, ports: Ports) -> Sequence[PodView]:
    """Return the waiting leaders of a cluster, as they were at most `LIST_SECONDS` ago."""

    def read() -> Sequence[PodView]:
        return tuple(islice(ports.clusters[cluster].list_waiting_leaders(), LEADERS_MAX))

    return share_list(f"leaders {cluster}", read, ports)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The leaders of a cluster that may wait for a place only."""

    pods: deque[PodView]
    """In their order; each is taken by one delivery."""
    look: Look
    """Its reads are shared."""
    creations: Creations


def fill_place(cluster: str, ports: Ports, *, apart: str) -> Answers:
    """Send one create for a slice that waits for a place only; return what was answered.

    An error is logged and stops nothing: the sweep answers these slices too.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        ports: the outside world.
        apart: begin of the hash of a claim that was answered a moment ago.
    """
    answers: Answers = []
    try:
        waiting = share_list(f"places {cluster}", lambda: _look(cluster, ports), ports)
        while waiting.pods and len(answers) < ANSWERS_MAX:
            pod = _take(waiting, cluster, ports, apart)
            if pod is None:
                continue
            answers += answer_pods(open_look(cluster, ports), [pod])
            if _uses_place(answers[-1]):
                break
    except IndexError:
        pass  # another delivery has taken the last one
    except ProvisionerError as error:
        _LOG.warning(
            "the slices that wait for a place could not be read", extra={"object": cluster, "error": str(error)}
        )
    return [each for each in answers if isinstance(each, Outcome)]


def _look(cluster: str, ports: Ports) -> _Waiting:
    now, kinds = ports.clock.now(), ports.settings.kinds
    pods = (pod for pod in list_leaders(cluster, ports) if pod.unschedulable)
    old = (pod for pod in pods if not is_fresh_leader(pod, listed_at=now, now=now))
    served = [pod for pod in old if (kind := find_kind_of_pod(pod)) is not None and kind.name in kinds]
    look, _ = share_reads(open_look(cluster, ports))
    return _Waiting(deque(order_by_turns(served)), look, Creations(cluster, ports))


def _take(waiting: _Waiting, cluster: str, ports: Ports, apart: str) -> PodView | None:
    """Return the next leader as it is now; None if its slice does not wait for a place only."""
    pod = waiting.pods.popleft()
    kind = find_kind_of_pod(pod)
    live = waiting.look.live
    workload = live.get_workload(kind.name, pod.namespace, kind.find_owner(pod)) if kind else None
    claim = find_claim(cluster, pod, workload)
    if claim is None or claim.hash.startswith(apart) or waiting.look.pools.list().list_claimed(claim.hash):
        return None
    if not waiting.creations.is_first(claim):
        return None
    now = ports.clusters[cluster].get_pod(pod.namespace, pod.name)
    return now if now is not None and now.uid == pod.uid and not now.node_name else None


def _uses_place(answer: Outcome | ProvisionerError) -> bool:
    """Return whether a create was sent, or may have been refused."""
    return not isinstance(answer, Outcome) or answer.decision.verdict == Verdict.CREATE


def order_by_turns(pods: Iterable[PodView]) -> list[PodView]:
    """Return pods in turn among namespaces; in each namespace the longest wait is first."""
    by_namespace: defaultdict[str, list[PodView]] = defaultdict(list)
    for pod in sorted(pods, key=_rank):
        by_namespace[pod.namespace].append(pod)
    turns = ((at, _rank(pod), pod) for found in by_namespace.values() for at, pod in enumerate(found))
    return [pod for *_, pod in sorted(turns, key=lambda each: each[:2])]


def _rank(pod: PodView) -> tuple[float, str, str]:
    since = math.inf if pod.unschedulable_since is None else pod.unschedulable_since
    return since, pod.namespace, pod.name
