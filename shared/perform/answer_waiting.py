"""Answers all waiting leaders of one workload in one delivery, or the leader that a message names.

A message is only a hint to look. One of a version before 0.3, and one about a pod without a
workload, names the pod.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from shared.core.decide.demands import decide_absent_pod, decide_no_leader
from shared.core.decisions import Reason
from shared.core.messages import POD
from shared.perform.admit_workloads import answer_reserved
from shared.perform.answer_demand import describe_asking, provision_pod
from shared.perform.explain import note_unwritten
from shared.perform.look import open_look
from shared.perform.outcome import Outcome
from shared.perform.resume_workloads import answer_workload
from shared.perform.side_by_side import run_widening
from shared.perform.sweep_report import name_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decisions import Decision
    from shared.core.errors import ProvisionerError
    from shared.core.messages import Event
    from shared.core.ports import Ports
    from shared.core.workloads import PodView

    Answers = list[Outcome | ProvisionerError]

LEADERS_MAX = 2_000
"""The most leaders that one delivery answers. The sweep answers the others."""


def provision(event: Event, ports: Ports) -> Answers:
    """Answer one demand event: each slice of the workload that waits gets a pool or a reason.

    An error about one slice stops no other; it is returned in its place.

    Raises:
        Retryable: something could not be read or is in progress; deliver the event again.
        Denied: a permission is missing.
    """
    cluster, subject = event.cluster, event.subject
    live = ports.clusters[cluster]
    if subject.kind == POD:
        pod = live.get_pod(subject.namespace, subject.name)
        if pod is None or pod.uid != subject.uid:
            return [_conclude(event, decide_absent_pod(str(subject)))]
        return answer_pods(cluster, [pod], ports)
    workload = None
    if subject.kind in ports.settings.kinds:
        workload = live.get_workload(subject.kind, subject.namespace, subject.name)
    if workload is None or subject.uid not in ("", workload.uid):
        return [_conclude(event, decide_no_leader(str(subject)))]
    if workload.suspended:
        return [*(answer_reserved(cluster, workload, ports) or answer_workload(cluster, workload, ports))]
    pods = list(islice(live.list_waiting_leaders(workload), LEADERS_MAX))
    return answer_pods(cluster, pods, ports) or [_conclude(event, decide_no_leader(str(subject)))]


def answer_pods(cluster: str, pods: Sequence[PodView], ports: Ports, *, had_pool: bool = False) -> Answers:
    """Answer waiting leaders side by side, each slice once.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pods: the leaders, as they were read just now.
        ports: the outside world.
        had_pool: their slices are known to have had pools.
    """
    look, reads = open_look(cluster, ports, had_pool=had_pool)
    try:
        done = run_widening([partial(provision_pod, pod, look) for pod in pods], ports)
    finally:
        for notice, error in reads.flush():
            note_unwritten(notice, error)
    answers = [
        _name_claim(cluster, pod, each) if isinstance(each, Exception) else each
        for pod, each in zip(pods, done, strict=True)
    ]
    # The other leaders of a slice, such as all pods of a Deployment, need no answer of their own.
    return [each for each in answers if len(answers) == 1 or not _is_repeated(each)]


def _name_claim(cluster: str, pod: PodView, error: Exception) -> ProvisionerError:
    found = name_error(error)
    found.claim = found.claim or describe_asking(cluster, pod, None)["claim"]
    return found


def _is_repeated(answer: Outcome | ProvisionerError) -> bool:
    return isinstance(answer, Outcome) and answer.decision.reason == Reason.NOT_A_LEADER


def _conclude(event: Event, decision: Decision) -> Outcome:
    return Outcome(decision=decision, cluster=event.cluster, subject=str(event.subject))
