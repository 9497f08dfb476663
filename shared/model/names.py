"""The name and the labels of a pool: the only record of whose it is and which try it was.

A name is a readable prefix, 55 bits of a hash over the claim, and the attempt. The labels have the
same in full, and a pool that is found by name is always checked by its labels. Two deliveries that
see the same scene compute the same name, so GKE refuses the second create.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

from msgspec import Struct, structs

from shared.model import labels
from shared.model.errors import Broken, refuse
from shared.model.times import SECONDS_MAX, parse_count


class ObjectName(Struct, frozen=True, kw_only=True):
    """The identity of one Kubernetes object, its UID included."""

    kind: str
    namespace: str
    name: str
    uid: str  # empty only in a demand, if the pods do not carry their workload's

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


_JOBSET = "JobSet"
KINDS = (_JOBSET, "RayCluster", "LeaderWorkerSet", "Job", "Deployment", "StatefulSet", "Pod")
"""The API's names of kinds. `shared.kinds.table` says what each of them means."""

Slot = int | str  # the number of a pool within its need; for a pinned need the key of its slice

POOL_NAME_LENGTH_MAX = 40  # assumes: name-length
"""The API names this limit and the pattern below when it answers 400."""
POOL_NAME = re.compile(rf"[a-z](?:[-a-z0-9]{{0,{POOL_NAME_LENGTH_MAX - 2}}}[a-z0-9])?")
HASH_CHARACTERS = 11
"""Base 32, so 55 bits: 10^7 claims have 10^14 / 2^56 = 0.0014 collisions on average."""
_SUFFIX_LENGTH_MAX = 4
"""Two digits of the attempt in base 36, and the mark of a successor of a useless pool."""
ATTEMPTS_MAX = 36**2
_PREFIX_LENGTH_MAX = POOL_NAME_LENGTH_MAX - len("--") - HASH_CHARACTERS - _SUFFIX_LENGTH_MAX
NAMES_MAX = 10_000  # so many parsed names are remembered: each tick meets those of an hour again
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_OUR_NAME = re.compile(
    rf"[a-z][-a-z0-9]*-([a-z2-7]{{{HASH_CHARACTERS}}})-([0-9a-z]{{1,2}})(?:u([12]))?"
)


class Claim(ObjectName, frozen=True, kw_only=True, dict=True):
    """The identity of one slot of one need: the same after a restart, another for a new owner."""

    cluster: str  # ``projects/P/locations/L/clusters/C``
    need: str  # the key of the need
    slot: Slot

    @cached_property
    def hash(self) -> str:
        """Return 55 bits over every field, in lower-case base 32."""
        owner = (self.cluster, self.kind, self.namespace, self.name, self.uid)
        return labels.hash_words((*owner, self.need, str(self.slot)), HASH_CHARACTERS)


class ParsedName(Struct, frozen=True):
    """The parts of a pool name of ours."""

    hash: str
    attempt: int
    useless: int  # how many pools of its slot before it had helped nobody


def build_name(claim: Claim, attempt: int, useless: int = 0) -> str:
    """Return the name of a claim's pool in one attempt; at most 40 characters."""
    if not 0 <= attempt < ATTEMPTS_MAX:
        raise Broken(f"attempt {attempt} is out of range 0..{ATTEMPTS_MAX - 1}")
    high, low = divmod(attempt, 36)
    suffix = (_DIGITS[high] if high else "") + _DIGITS[low] + (f"u{useless}" if useless else "")
    readable = re.sub(r"[^a-z0-9]+", "-", claim.name.lower()).strip("-")
    prefix = readable if readable[:1].isalpha() else f"tpu-{readable}"
    prefix = prefix[:_PREFIX_LENGTH_MAX].strip("-")
    name = f"{prefix}-{claim.hash}-{suffix}"
    if not POOL_NAME.fullmatch(name):
        raise Broken(f"built a pool name that is not valid: {name}")
    return name


@lru_cache(maxsize=NAMES_MAX)
def parse_name(name: str) -> ParsedName | None:
    """Return the parts of a name that `build_name` made, or None for any other name."""
    match = _OUR_NAME.fullmatch(name)
    if not match or len(name) > POOL_NAME_LENGTH_MAX:
        return None
    return ParsedName(match[1], int(match[2], 36), int(match[3] or 0))


class Try(Struct, frozen=True, kw_only=True):
    """Which try of a slot a pool is."""

    attempt: int = 0
    candidate: int = 0  # which way of its fallback list it is, from 0
    round: int = 0  # how many lists of its slot had ended when it was made
    useless: int = 0  # how many pools of its slot before it had helped nobody


class Owner(Try, frozen=True, kw_only=True):
    """The owner of a pool, by its labels. Of the Go TPU Provisioner it has the first three."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    need: str = ""  # the key of the need that the pool was made for
    slot: Slot | None = None  # None for those of the Go TPU Provisioner
    created_at: int = 0  # unix seconds, which GKE does not record; 0: not said
    cluster_uid: str = ""
    warm_seconds: int = 0  # how long the pool may stay without use after its workload is finished

    @property
    def key(self) -> tuple[str, str, str]:
        """Return kind, namespace and name of the workload."""
        return self.kind, self.namespace, self.name


_TEXTS = {"uid": labels.OWNER_UID, "need": labels.NEED, "cluster_uid": labels.CLUSTER_UID}
_NUMBERS = {
    "attempt": labels.ATTEMPT,
    "candidate": labels.CANDIDATE,
    "round": labels.ROUND,
    "useless": labels.USELESS,
    "created_at": labels.CREATED_AT,
    "warm_seconds": labels.IDLE,
}
"""The labels of the fields of an owner. The number 0 has none, but for the attempt."""


def build_owner_labels(
    claim: Claim, tried: Try, *, created_at: int, cluster_uid: str = "", warm_seconds: int = 0
) -> dict[str, str]:
    """Return the labels that name the owner of a pool; the inverse of `parse_owner`.

    A name that is no value of a label is refused and never cut: pools are found by it.
    """
    parent = claim.kind.lower()
    of_kind = {labels.WORKLOAD_KIND: claim.kind, labels.WORKLOAD_NAME: claim.name}
    if claim.kind == _JOBSET:  # as the Go TPU Provisioner names them
        parent = "job"
        of_kind = {labels.JOBSET_NAME: claim.name, labels.JOBSET_NAMESPACE: claim.namespace}
    of_pool = {"created_at": created_at, "cluster_uid": cluster_uid, "warm_seconds": warm_seconds}
    values = {**structs.asdict(tried), **structs.asdict(claim), **of_pool}
    written = {
        labels.MANAGER: labels.MANAGER_VALUE,
        labels.PARENT_KIND: parent,
        labels.PARENT_NAME: claim.name,
        labels.PARENT_NAMESPACE: claim.namespace,
        **of_kind,
        labels.SLOT: str(claim.slot),
        labels.ATTEMPT: str(tried.attempt),
        **{key: str(values[name]) for name, key in (_TEXTS | _NUMBERS).items() if values[name]},
    }
    for key, value in written.items():  # assumes: label-limit
        if not _LABEL_VALUE.fullmatch(value):
            raise refuse("name_no_label", value, key=key, length=len(value))
    return written


def parse_owner(node_labels: Mapping[str, str]) -> Owner | None:
    """Return the owner of a pool with these node labels; None when the pool is not ours.

    Pools of the Go TPU Provisioner are ours too. They have its manager label and the workload's
    name, but neither UID nor slot.
    """
    if node_labels.get(labels.MANAGER) != labels.MANAGER_VALUE:
        return None
    kind, namespace_key = node_labels.get(labels.WORKLOAD_KIND, ""), labels.PARENT_NAMESPACE
    name = node_labels.get(labels.WORKLOAD_NAME, "")
    if node_labels.get(labels.JOBSET_NAME):
        kind, namespace_key = _JOBSET, labels.JOBSET_NAMESPACE
        name = node_labels[labels.JOBSET_NAME]
    if kind not in KINDS or not name:
        return None

    values: dict[str, Any] = {key: node_labels.get(label, "") for key, label in _TEXTS.items()}
    for key, label in _NUMBERS.items():
        values[key] = parse_count(node_labels.get(label, ""), most=SECONDS_MAX) or 0
    slot = node_labels.get(labels.SLOT, "")
    number = parse_count(slot, most=SECONDS_MAX)
    return Owner(
        kind=kind,
        namespace=node_labels.get(namespace_key, "default"),
        name=name,
        slot=(slot or None) if number is None else number,
        **values,
    )
