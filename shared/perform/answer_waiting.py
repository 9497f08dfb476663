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
from shared.perform.look import open_look, share_reads
from shared.perform.outcome import Outcome, name_error
from shared.perform.resume_workloads import answer_workload
from shared.perform.side_by_side import run_widening

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decisions import Decision
    from shared.core.errors import ProvisionerError
    from shared.core.messages import Event
    from shared.core.ports import Ports
    from shared.core.workloads import PodView
    from shared.perform.look import Look
    from shared.perform.shared_reads import SharedReads

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
    subject, look = event.subject, open_look(event.cluster, ports)
    if subject.kind == POD:
        pod = look.live.get_pod(subject.namespace, subject.name)
        if pod is None or pod.uid != subject.uid:
            return [_conclude(event, decide_absent_pod(str(subject)))]
        return answer_pods(look, [pod])
    shared, reads = share_reads(look)
    workload = None
    if subject.kind in look.settings.kinds:
        workload = shared.live.get_workload(subject.kind, subject.namespace, subject.name)
    if workload is None or subject.uid not in ("", workload.uid):
        return [_conclude(event, decide_no_leader(str(subject)))]
    if workload.suspended:
        return [*(answer_reserved(look, workload) or answer_workload(look, workload))]
    pods = list(islice(look.live.list_waiting_leaders(workload), LEADERS_MAX))
    return _answer(shared, reads, pods) or [_conclude(event, decide_no_leader(str(subject)))]


def answer_pods(look: Look, pods: Sequence[PodView]) -> Answers:
    """Answer waiting leaders, as they were read just now, side by side, each slice once."""
    return _answer(*share_reads(look), pods)


def _answer(look: Look, reads: SharedReads, pods: Sequence[PodView]) -> Answers:
    try:
        done = run_widening([partial(provision_pod, pod, look) for pod in pods], look.ports)
    finally:
        reads.write_notices()
    answers = [
        _name_claim(look.cluster, pod, each) if isinstance(each, Exception) else each
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
