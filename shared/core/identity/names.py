"""The name and the labels of a pool: the only record of the slice that it belongs to.

A name is a readable prefix, 55 bits of a hash over the claim, and the attempt. The labels have the
same in full, and a pool that is found by name is always checked by its labels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.counts import SECONDS_MAX, parse_count
from shared.core.errors import Broken, NameUnfit
from shared.core.kinds.elastic import is_elastic_name
from shared.core.kinds.table import KINDS, find_kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.core.kinds.kind import Kind

POOL_NAME_LENGTH_MAX = 40  # assumes: name-length
"""The API names this limit and the pattern below when it answers 400."""
POOL_NAME = re.compile(rf"[a-z](?:[-a-z0-9]{{0,{POOL_NAME_LENGTH_MAX - 2}}}[a-z0-9])?")
HASH_CHARACTERS = 11
"""Base 32, so 55 bits: 10^7 claims have 10^14 / 2^56 = 0.0014 collisions on average."""
CLAIM_CHARACTERS = 24
"""120 bits on the label, which is compared before every change of a pool."""
_ATTEMPT_DIGITS_MAX = 2
ATTEMPTS_MAX = 36**_ATTEMPT_DIGITS_MAX
_PREFIX_LENGTH_MAX = POOL_NAME_LENGTH_MAX - len("-") - HASH_CHARACTERS - len("-") - _ATTEMPT_DIGITS_MAX
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_CANDIDATE = re.compile(r"([0-9]{1,2})-of-([0-9]{1,2})-[a-z2-7]+")
_OUR_NAME = re.compile(rf"([a-z][-a-z0-9]*)-([a-z2-7]{{{HASH_CHARACTERS}}})-([0-9a-z]{{1,{_ATTEMPT_DIGITS_MAX}}})")


@dataclass(frozen=True, kw_only=True)
class SliceClaim:
    """The identity of one slice: the same after a restart, another for a re-created owner."""

    cluster: str
    """``projects/P/locations/L/clusters/C``."""
    kind: str
    """The workload's kind, as the table names it."""
    namespace: str
    name: str
    """The workload's name."""
    owner_uid: str
    slice_key: str
    """``namespace/slice``."""

    @cached_property
    def hash(self) -> str:
        """Return 120 bits over every field, in lower-case base 32."""
        parts = (self.cluster, self.kind, self.namespace, self.name, self.owner_uid, self.slice_key)
        # Each part has its length before it, so that two claims never have the same text.
        return labels.hash_text("".join(f"{len(part)}:{part}" for part in parts), CLAIM_CHARACTERS)

    @property
    def slice_name(self) -> str:
        """Return the name of the slice without its namespace."""
        return self.slice_key.rpartition("/")[2]

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}, slice {self.slice_name}"


@dataclass(frozen=True, slots=True)
class ParsedName:
    """The parts of a pool name of this project."""

    prefix: str
    hash: str
    attempt: int

    def may_be_of(self, workload_name: str) -> bool:
        """Return whether it may be of a workload, whose slices' names all begin with its own."""
        return self.prefix.startswith(_readable_prefix(workload_name))


def build_pool_name(claim: SliceClaim, attempt: int = 0) -> str:
    """Return the name of a claim's pool in one attempt; at most 40 characters.

    Raises:
        Broken: the attempt is out of its range, 0 to 1,295.
    """
    if not 0 <= attempt < ATTEMPTS_MAX:
        raise Broken(f"attempt {attempt} is out of range 0..{ATTEMPTS_MAX - 1}")
    high, low = divmod(attempt, 36)
    suffix = (_DIGITS[high] if high else "") + _DIGITS[low]
    name = f"{_readable_prefix(claim.slice_name)}-{claim.hash[:HASH_CHARACTERS]}-{suffix}"
    if not POOL_NAME.fullmatch(name):
        raise Broken(f"built a pool name that is not valid: {name}")
    return name


def parse_pool_name(name: str) -> ParsedName | None:
    """Return the parts of a name that `build_pool_name` made, or None for any other name."""
    match = _OUR_NAME.fullmatch(name)
    if not match or len(name) > POOL_NAME_LENGTH_MAX:
        return None
    return ParsedName(prefix=match[1], hash=match[2], attempt=int(match[3], 36))


def _readable_prefix(text: str) -> str:
    cleaned = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not cleaned or not cleaned[0].isalpha():
        cleaned = f"tpu-{cleaned}"
    return cleaned[:_PREFIX_LENGTH_MAX].strip("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOwner:
    """The owner of a pool, by its labels. Pools of the Go TPU Provisioner lack the last six."""

    kind: str
    namespace: str
    name: str
    slice_name: str = ""
    owner_uid: str = ""
    claim_hash: str = ""
    attempt: int = 0
    created_at: int | None = None
    """Unix seconds; GKE does not record when a pool was created."""
    fingerprint: str = ""
    candidate: str = ""
    """Which of a list of capacity, as `labels.CANDIDATE` says; empty without a choice."""
    cluster_uid: str = ""
    """UID of the cluster's namespace ``kube-system``; empty for pools of Go's too."""
    idle_seconds: int = 0
    """How long the pool may stay without use after its workload is over; never set by Go's."""

    @property
    def home(self) -> tuple[str, str, str]:
        """Return kind, namespace and name of the workload."""
        return self.kind, self.namespace, self.name

    @property
    def elastic(self) -> bool:
        """Return whether the pool is the elastic one of its workload and shape."""
        return is_elastic_name(self.name, self.slice_name)

    @property
    def candidates(self) -> tuple[int, int]:
        """Return which candidate it is, from 0, and of how many: (0, 1) without a choice."""
        match = _CANDIDATE.fullmatch(self.candidate)
        number, count = (int(match[1]), int(match[2])) if match else (1, 1)
        return (number - 1, count) if 1 <= number <= count else (0, 1)

    def was_made_for(self, fingerprint: str) -> bool:
        """Return whether the pool has this fingerprint.

        A pool without one, or with one of another version, counts as true: the two cannot be
        compared, and a pool is never made anew because of the version that created it.
        """
        of_pool, wanted = self.fingerprint.partition("-")[0], fingerprint.partition("-")[0]
        return of_pool != wanted or self.fingerprint == fingerprint


def build_owner_labels(
    claim: SliceClaim,
    *,
    attempt: int,
    created_at: int,
    fingerprint: str,
    optional: Mapping[str, str | int] | None = None,
) -> dict[str, str]:
    """Return the labels that name the owner of a pool; the inverse of `parse_owner`.

    Of the optional ones, by their keys, those that are empty get no label.

    Raises:
        NameUnfit: a name is not a valid label value. It is never cut, because pools are found by
            it.
    """
    kind = find_kind(claim.kind)
    if kind is None:
        raise Broken(f"the kind of {claim} is not in the table of kinds")
    found = {
        labels.MANAGER: labels.MANAGER_VALUE,
        labels.PARENT_KIND: kind.parent_kind,
        labels.PARENT_NAME: claim.slice_name,
        labels.PARENT_NAMESPACE: claim.namespace,
        kind.name_label: claim.name,
        labels.OWNER_UID: claim.owner_uid,
        labels.CLAIM: claim.hash,
        labels.ATTEMPT: str(attempt),
        labels.CREATED_AT: str(created_at),
        labels.FINGERPRINT: fingerprint,
    } | {key: str(value) for key, value in (optional or {}).items() if value}
    if kind.namespace_label:
        found[kind.namespace_label] = claim.namespace
    if kind.name_label == labels.WORKLOAD_NAME:
        found[labels.WORKLOAD_KIND] = kind.name
    _check_label_values(found)
    if parse_owner(found) is None:
        raise Broken(f"the owner labels of {claim} cannot be read back")
    return found


def parse_owner(found: Mapping[str, str]) -> PoolOwner | None:
    """Return the owner of a pool with these node labels; None when the pool is not ours.

    Pools of the Go TPU Provisioner are ours too. They have its manager label and the workload's
    name, but neither UID nor claim.
    """
    if found.get(labels.MANAGER) != labels.MANAGER_VALUE:
        return None
    kind = _find_kind(found)
    if kind is None:
        return None
    return PoolOwner(
        kind=kind.name,
        namespace=found.get(kind.namespace_label or labels.PARENT_NAMESPACE, "default"),
        name=found[kind.name_label],
        slice_name=found.get(labels.PARENT_NAME, ""),
        owner_uid=found.get(labels.OWNER_UID, ""),
        claim_hash=found.get(labels.CLAIM, ""),
        attempt=_parse_number(found.get(labels.ATTEMPT)) or 0,
        created_at=_parse_number(found.get(labels.CREATED_AT)),
        fingerprint=found.get(labels.FINGERPRINT, ""),
        candidate=found.get(labels.CANDIDATE, ""),
        cluster_uid=found.get(labels.CLUSTER_UID, ""),
        idle_seconds=_parse_number(found.get(labels.IDLE)) or 0,
    )


def _find_kind(found: Mapping[str, str]) -> Kind | None:
    """Return the kind of workload that labels name; None for an unknown kind."""
    for kind in KINDS:
        named = kind.name_label != labels.WORKLOAD_NAME or found.get(labels.WORKLOAD_KIND) == kind.name
        if named and found.get(kind.name_label):
            return kind
    return None


def _check_label_values(found: Mapping[str, str]) -> None:
    for key, value in found.items():
        if not _LABEL_VALUE.fullmatch(value):
            raise NameUnfit(
                f"the nodes of the pool name their workload and slice in labels, and this is no value of a label "
                f"({key}; {len(value)} characters)",
                field="metadata.name",
                value=value,
                valid="a shorter name of the workload or of its group: with all that is appended to it at most 63 "
                "letters, digits, '-', '_' and '.', the first and last a letter or digit",
            )


def _parse_number(text: str | None) -> int | None:
    return parse_count(text or "", most=SECONDS_MAX)
