"""Names and owner labels: legal, reversible, and practically never the same for two claims."""

import math
import re
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from shared.kinds.table import KIND_NAMES
from shared.model import labels
from shared.model.decisions import Reason
from shared.model.errors import Broken
from shared.model.names import (
    ATTEMPTS_MAX,
    HASH_CHARACTERS,
    KINDS,
    POOL_NAME_LENGTH_MAX,
    Claim,
    Owner,
    Try,
    build_name,
    build_owner_labels,
    parse_name,
    parse_owner,
)
from tests.builders import CLUSTER, a_claim
from tests.demands import refuses

LABEL_CHARACTERS_MAX = 1024
"""Of all node labels of a pool: https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/NodeConfig."""
GKE_POOL_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
NASTY_JOBS = (
    *("a", "0", "7-days", "0" * 63, "a" * 63, "-".join("a" * 31), "a" * 24 + "-" + "b" * 38, "9" * 24 + "-a"),
    *("a" * 25 + "-" + "b" * 37, "train.v2-workers-0", "x" * 24 + "." * 2 + "y"),
)
KUBERNETES_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", fullmatch=True)
ATTEMPTS = st.integers(min_value=0, max_value=ATTEMPTS_MAX - 1)


def is_legal(name: str) -> bool:
    return len(name) <= POOL_NAME_LENGTH_MAX and GKE_POOL_NAME.fullmatch(name) is not None


@given(
    job=st.one_of(KUBERNETES_NAMES, st.sampled_from(NASTY_JOBS), st.text(max_size=80)),
    namespace=KUBERNETES_NAMES,
    attempt=ATTEMPTS | st.sampled_from([0, 35, 36, ATTEMPTS_MAX - 1]),
    useless=st.integers(0, 2),
)
def test_a_name_is_legal_and_parses_to_what_it_was_made_of(
    job: str, namespace: str, attempt: int, useless: int
) -> None:
    """Of any text, also of one that Kubernetes would refuse as the name of a Job."""
    claim = a_claim(namespace=namespace, name=job)
    name = build_name(claim, attempt, useless)
    parsed = parse_name(name)

    assert is_legal(name)
    assert parsed is not None
    assert (parsed.hash, parsed.attempt, parsed.useless) == (claim.hash, attempt, useless)


@pytest.mark.parametrize("attempt", [-1, ATTEMPTS_MAX, 10**9])
def test_an_attempt_out_of_range_is_a_bug_of_ours(attempt: int) -> None:
    with pytest.raises(Broken, match=r"out of range 0\.\.1295"):
        build_name(a_claim(), attempt)


def test_the_readable_part_is_the_job_s_name() -> None:
    assert build_name(a_claim(name="train-workers-0"), 0).startswith("train-workers-0-")
    assert build_name(a_claim(name="0train"), 0).startswith("tpu-0train-")
    assert build_name(a_claim(name="w1"), 0).startswith("w1-")
    assert set(KINDS) == set(KIND_NAMES), "the labels of every kind say how they name its workloads"


@pytest.mark.parametrize(
    "name", ["default-pool", "train-abcde", "", "a" * 60 + "-aaaaaaaaaaa-0", "TRAIN-aaaaaaaaaaa-0"]
)
def test_a_name_that_we_did_not_make_is_not_parsed(name: str) -> None:
    assert parse_name(name) is None


FIELDS = ("cluster", "kind", "namespace", "name", "uid", "need", "slot")


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_of_the_claim_changes_the_name(field: str) -> None:
    other = a_claim(**{field: "other/other"})

    assert other.hash != a_claim().hash
    assert build_name(other, 0) != build_name(a_claim(), 0)


@given(parts=st.lists(st.text(alphabet="ab/:1", max_size=3), min_size=7, max_size=7))
def test_two_claims_whose_fields_run_together_are_still_two(parts: list[str]) -> None:
    claim = Claim(**dict(zip(FIELDS, parts, strict=True)))
    text = "".join(parts)
    moved = Claim(**dict(zip(FIELDS, ("", "", "", "", "", "", text), strict=True)))

    assert (claim.hash == moved.hash) == (claim == moved)


def test_100_000_identities_get_100_000_hashes_that_spread_over_all_bits() -> None:
    """The part of the name that tells claims apart, alone: prefix and attempt only add to it."""
    plain = {"cluster": CLUSTER, "kind": "JobSet", "name": "train", "need": "k7q2"}
    hashes = {
        Claim(**plain, namespace=namespace, uid=uid, slot=index).hash
        for namespace, uid, index in product("abc", map(str, range(50)), range(667))
    }

    assert len(hashes) == 3 * 50 * 667 > 100_000
    assert {len({text[position] for text in hashes}) for position in range(HASH_CHARACTERS)} == {32}
    assert HASH_CHARACTERS * math.log2(32) == 55, "of ten million claims two collide with 0.14 %"


SMALL = st.integers(min_value=0, max_value=9)
UID_OF_CLUSTER = "uid-of-kube-system"


@given(
    kind=st.sampled_from(sorted(KINDS)),
    names=st.tuples(KUBERNETES_NAMES, KUBERNETES_NAMES),
    slot=st.one_of(st.integers(0, 10**4), st.sampled_from(["any", "train-workers-0"])),
    tried=st.builds(Try, attempt=ATTEMPTS, candidate=SMALL, round=SMALL, useless=SMALL),
    created_at=st.integers(min_value=1, max_value=2**33),
    warm_seconds=SMALL,
)
def test_owner_labels_read_back_as_what_they_were_made_of(
    kind: str, names: tuple[str, str], slot: int | str, tried: Try, created_at: int, warm_seconds: int
) -> None:
    namespace, name = names
    claim = a_claim(kind=kind, namespace=namespace, name=name, slot=slot)
    when: dict[str, Any] = {"created_at": created_at, "warm_seconds": warm_seconds, "cluster_uid": UID_OF_CLUSTER}
    written = build_owner_labels(claim, tried, **when)

    assert parse_owner(written) == Owner(
        kind=kind,
        namespace=namespace,
        name=name,
        uid=claim.uid,
        need=claim.need,
        slot=slot,
        **structs.asdict(tried),
        **when,
    )
    assert all(key.startswith(labels.OWNER_KEYS) for key in written)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_owner_labels_are_legal_kubernetes_labels_well_within_the_budget(kind: str) -> None:
    longest = a_claim(kind=kind, namespace="n" * 63, name="j" * 53, uid="0" * 36, slot="s" * 63)
    tried = Try(attempt=1295, candidate=15, round=99, useless=2)
    written = build_owner_labels(longest, tried, created_at=2**33, cluster_uid="0" * 36, warm_seconds=86_400)

    assert all(re.fullmatch(r"[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?", value) for value in written.values())
    assert all(len(key.rpartition("/")[2]) <= 63 for key in written)
    assert sum(len(key) + len(value) + 2 for key, value in written.items()) <= LABEL_CHARACTERS_MAX


def test_a_name_that_is_no_value_of_a_label_is_never_cut() -> None:
    with refuses(Reason.NAME_UNFIT, match="at most 63"):
        build_owner_labels(a_claim(name="x" * 64), Try(), created_at=1)


@pytest.mark.parametrize(
    "found",
    [
        {},
        {labels.JOBSET_NAME: "train"},
        {labels.MANAGER: "somebody-else", labels.JOBSET_NAME: "train"},
        {labels.MANAGER: labels.MANAGER_VALUE},
        {labels.MANAGER: labels.MANAGER_VALUE, labels.JOBSET_NAME: ""},
        {labels.MANAGER: labels.MANAGER_VALUE, labels.WORKLOAD_KIND: "Job"},
    ],
)
def test_a_pool_without_our_manager_or_a_workload_is_nobody_s_of_ours(found: dict[str, str]) -> None:
    assert parse_owner(found) is None


GO = {labels.MANAGER: labels.MANAGER_VALUE, labels.JOBSET_NAME: "train"}


@pytest.mark.parametrize("text", [None, "", "-1", "1.5", "٣", "yesterday", "1e9"])
def test_a_pool_of_the_go_provisioner_is_ours_and_no_number_is_read_as_not_said(text: str | None) -> None:
    numbers = {} if text is None else {labels.CREATED_AT: text, labels.ATTEMPT: text}

    assert parse_owner(GO | numbers) == Owner(kind="JobSet", namespace="default", name="train")
