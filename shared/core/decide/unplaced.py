"""Decides why a pod waits although the pool of its slice runs and nothing else uses it. Pure.

The nodes of the pool tell the reason. The words of the scheduler are added, because it knows more:
what other pods use, and rules between pods.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pools import PoolStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from shared.core.identity.pools import PoolSnapshot
    from shared.core.workloads import NodeView, PodView

_NAMED_MAX = 3
_GIB = 2**30
_PREFIX = re.compile(r"^\d+/\d+ nodes are available: |( preemption:| no new claims).*$", re.DOTALL)
_COUNT = re.compile(r"^\d+ ")
_OF_KUBERNETES = "node.kubernetes.io/"
"""Taints that follow from the state of a node, which has a sentence of its own:
https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-not-ready."""
_ADVICE = (
    (labels.SPOT, labels.SPOT, f"the pods need a toleration of the taint {labels.SPOT}"),
    ("Insufficient cpu", " CPU,", "the pod requests more CPU than is free on a node of this machine type"),
    (
        "Insufficient memory",
        " memory,",
        "the pod requests more memory than is free on a node of this machine type",
    ),
    (_OF_KUBERNETES, " Ready ", "GKE repairs nodes that are not ready"),
)
"""A word of the scheduler, what the nodes' own sentence about it has, and what helps without it."""


def decide_unplaced(
    pod: PodView, pool: PoolSnapshot | None, nodes: Sequence[NodeView] | None, *, wanted: int = 0
) -> Decision:
    """Return why a pod waits although nothing else uses the pool of its slice.

    The counts in the scheduler's words are left out, so that the text stays the same while the
    cluster grows.

    Args:
        pod: the pod that waits.
        pool: the pool of its slice; None if the slice runs on a pool of another one.
        nodes: the nodes that the cluster has of the pool; None if they were not read.
        wanted: how many nodes the pool must have; 0 if that is not known.
    """
    runs = "runs" if pool is None or pool.status == PoolStatus.RUNNING else f"is {pool.status}"
    state = f"node pool {pool.name} {runs}" if pool else "the slice of this pod runs"
    causes = "; ".join(_list_causes(pod, nodes, wanted)) if nodes is not None else ""
    words = _tell_scheduler(pod)
    advice = (text for word, told, text in _ADVICE if word in words and told not in causes)
    why = "; ".join((words, *advice))
    message = f"{state}, but the scheduler finds no place for this pod: {why}"
    if causes:
        message = f"{state}, but this pod cannot run on it: {causes}. The scheduler says: {why}"
    return Decision(Verdict.WAIT, Reason.POD_UNPLACED, message)


def _tell_scheduler(pod: PodView) -> str:
    parts = {_COUNT.sub("", part).strip(" .") for part in _PREFIX.sub("", pod.scheduler_message).split(", ")}
    return "; ".join(sorted(filter(None, parts))) or "it has not said why"


def _list_causes(pod: PodView, nodes: Sequence[NodeView], wanted: int) -> Iterator[str]:
    """Yield what is wrong, first with the pod on any node, then with the nodes."""
    yield from _list_excesses(pod, nodes)
    yield from _list_untolerated(pod, nodes)
    if len(nodes) < wanted:
        spot = pod.template.selects(labels.SPOT) or any(_has_taint(each, labels.SPOT) for each in nodes)
        why = "GKE takes spot nodes away, and adds them again when there is capacity"
        yield f"{len(nodes)} of {wanted} nodes exist; {why if spot else 'GKE adds those that are missing'}"
    ready = [each for each in nodes if each.ready]
    if len(ready) < len(nodes):
        broken = _name_some(nodes, lambda each: not each.ready)
        yield f"{len(ready)} of {len(nodes)} nodes are Ready (not {broken}); GKE repairs the others"
    cordoned = [each for each in nodes if each.cordoned]
    if cordoned:
        names = _name_some(nodes, lambda each: each.cordoned)
        yield f"{len(cordoned)} of {len(nodes)} nodes are cordoned ({names}); kubectl uncordon admits pods again"


def _list_excesses(pod: PodView, nodes: Sequence[NodeView]) -> Iterator[str]:
    """Yield each resource of which the pod requests more than any node has."""
    asked = pod.template
    rows: tuple[tuple[str, float, list[float | None]], ...] = (
        ("accelerators", asked.units, [each.units for each in nodes]),
        ("CPU", asked.cpu_millis / 1000, [_scale(each.cpu_millis, 1000) for each in nodes]),
        ("GiB of memory", asked.memory_bytes / _GIB, [_scale(each.memory_bytes, _GIB) for each in nodes]),
    )
    for name, wanted, offered in rows:
        known = [each for each in offered if each is not None]
        if known and len(known) == len(nodes) and wanted > max(known):
            yield f"it requests {_format(wanted)} {name}, and a node offers pods {_format(max(known))}"


def _list_untolerated(pod: PodView, nodes: Sequence[NodeView]) -> Iterator[str]:
    """Yield each taint that the pod does not tolerate, but for those of a node's state and ours."""
    found = Counter(
        taint
        for node in nodes
        for taint in node.taints
        if taint.keeps_off
        and not taint.key.startswith((_OF_KUBERNETES, labels.SURPLUS))
        and not any(each.covers(taint) for each in pod.template.tolerations)
    )
    for taint, count in sorted(found.items(), key=str):
        yield f"{count} of {len(nodes)} nodes have the taint {taint}, which the pod does not tolerate"


def _scale(amount: int | None, unit: int) -> float | None:
    return None if amount is None else amount / unit


def _format(amount: float) -> str:
    return f"{amount:.2f}".rstrip("0").rstrip(".")


def _has_taint(node: NodeView, key: str) -> bool:
    return any(taint.key == key for taint in node.taints)


def _name_some(nodes: Sequence[NodeView], chosen: Callable[[NodeView], bool]) -> str:
    names = sorted(each.name for each in nodes if chosen(each))
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
