"""Names and owner labels: legal, reversible, and practically never the same for two claims."""

import dataclasses
import math
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kinds import jobset as jobset_keys
from shared.kinds.table import list_slices
from shared.model import labels
from shared.model.errors import Broken, LabelBudgetExceeded
from shared.model.names import (
    ATTEMPTS_MAX,
    HASH_CHARACTERS,
    SliceClaim,
    build_owner_labels,
    build_pool_name,
    parse_owner,
    parse_pool_name,
)
from shared.needs.demand import claim_slice
from shared.needs.nodepool import NODE_LABEL_CHARACTERS_MAX, check_label_budget, measure_labels
from tests.builders import CLUSTER, OWNER_KEYS, a_claim
from tests.unit.live_pods import ALL, a_body, a_workload

GKE_POOL_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
GKE_LENGTH_MAX = 40
NASTY_JOBS = (
    "a",
    "0",
    "7-days",
    "0" * 63,
    "a" * 63,
    "-".join("a" * 31),
    "a" * 24 + "-" + "b" * 38,
    "a" * 25 + "-" + "b" * 37,
    "train.v2-workers-0",
    "x" * 24 + "." * 2 + "y",
    "9" * 24 + "-a",
)
KUBERNETES_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", fullmatch=True)
ATTEMPTS = st.integers(min_value=0, max_value=ATTEMPTS_MAX - 1)


def claim_of(job: str, *, namespace: str = "default", uid: str = "u-1") -> SliceClaim:
    return a_claim(namespace=namespace, name=job, owner_uid=uid, slice_key=f"{namespace}/{job}")


def is_legal(name: str) -> bool:
    return len(name) <= GKE_LENGTH_MAX and GKE_POOL_NAME.fullmatch(name) is not None


@pytest.mark.parametrize("job", NASTY_JOBS)
def test_a_nasty_job_name_still_gives_a_legal_pool_name(job: str) -> None:
    for attempt in (0, 35, 36, ATTEMPTS_MAX - 1):
        assert is_legal(build_pool_name(claim_of(job), attempt))


@given(job=KUBERNETES_NAMES, namespace=KUBERNETES_NAMES, attempt=ATTEMPTS)
def test_a_name_is_legal_and_parses_to_what_it_was_made_of(job: str, namespace: str, attempt: int) -> None:
    claim = claim_of(job, namespace=namespace)
    name = build_pool_name(claim, attempt)
    parsed = parse_pool_name(name)

    assert is_legal(name)
    assert parsed is not None
    assert (parsed.hash, parsed.attempt) == (claim.hash[:HASH_CHARACTERS], attempt)


@given(job=st.text(max_size=80))
def test_even_text_that_kubernetes_would_refuse_gives_a_legal_name(job: str) -> None:
    assert is_legal(build_pool_name(claim_of(job)))


def test_every_attempt_has_its_own_name() -> None:
    names = {build_pool_name(a_claim(), attempt) for attempt in range(ATTEMPTS_MAX)}

    assert len(names) == ATTEMPTS_MAX == 1296
    assert all(is_legal(name) for name in names)
    assert sorted(parsed.attempt for name in names if (parsed := parse_pool_name(name))) == list(range(1296))


@pytest.mark.parametrize("attempt", [-1, ATTEMPTS_MAX, 10**9])
def test_an_attempt_out_of_range_is_a_bug_of_ours(attempt: int) -> None:
    with pytest.raises(Broken, match=r"out of range 0\.\.1295"):
        build_pool_name(a_claim(), attempt)


def test_the_readable_part_is_the_job_s_name() -> None:
    assert build_pool_name(claim_of("train-workers-0")).startswith("train-workers-0-")
    assert build_pool_name(claim_of("0train")).startswith("tpu-0train-")


@pytest.mark.parametrize(
    "name", ["default-pool", "train-abcde", "", "a" * 60 + "-aaaaaaaaaaa-0", "TRAIN-aaaaaaaaaaa-0"]
)
def test_a_name_that_we_did_not_make_is_not_parsed(name: str) -> None:
    assert parse_pool_name(name) is None


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("name", ["train", "0train", "a.b", "x", "x" * 22 + "-y", "x" * 23 + ".y", "x" * 53])
def test_the_slices_of_every_kind_have_pools_whose_names_fit_the_workload(kind: str, name: str) -> None:
    workload = dataclasses.replace(a_workload(kind, a_body()), name=name)
    found = [build_pool_name(claim_slice(CLUSTER, workload, each)) for each in list_slices(workload)]
    parsed = [parse_pool_name(each) for each in found]

    assert found
    assert all(each is not None and each.may_be_of(name) for each in parsed)
    assert not any(each is not None and each.may_be_of("other") for each in parsed)


FIELDS = ("cluster", "kind", "namespace", "name", "owner_uid", "slice_key")


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_of_the_claim_changes_the_name(field: str) -> None:
    other = a_claim(**{field: "other/other"})

    assert other.hash != a_claim().hash
    assert build_pool_name(other) != build_pool_name(a_claim())


@given(parts=st.lists(st.text(alphabet="ab/:1", max_size=3), min_size=6, max_size=6))
def test_two_claims_whose_fields_run_together_are_still_two(parts: list[str]) -> None:
    claim = SliceClaim(**dict(zip(FIELDS, parts, strict=True)))
    text = "".join(parts)
    moved = SliceClaim(**dict(zip(FIELDS, ("", "", "", "", "", text), strict=True)))

    assert (claim.hash == moved.hash) == (claim == moved)


def test_a_recreated_jobset_is_a_new_claim_and_a_restart_is_not() -> None:
    assert a_claim(owner_uid="u-2").hash != a_claim(owner_uid="u-1").hash
    assert a_claim(owner_uid="u-1").hash == a_claim(owner_uid="u-1").hash


def test_100_000_identities_get_100_000_hashes() -> None:
    """The part of the name that tells claims apart, alone: prefix and attempt only add to it."""
    plain = {"cluster": CLUSTER, "kind": "JobSet", "name": "train"}
    hashes = {
        SliceClaim(
            **plain, namespace=namespace, owner_uid=uid, slice_key=f"{namespace}/train-workers-{index}"
        ).hash[:HASH_CHARACTERS]
        for namespace, uid, index in product("abc", map(str, range(50)), range(667))
    }

    assert len(hashes) == 3 * 50 * 667 > 100_000


def test_among_ten_million_claims_a_collision_is_improbable() -> None:
    bits = HASH_CHARACTERS * math.log2(32)
    claims = 10**7
    expected_collisions = claims * (claims - 1) / 2 / 2**bits

    assert bits == 55
    assert expected_collisions == pytest.approx(0.00139, rel=0.01)
    assert -math.expm1(-expected_collisions) < 0.002


def test_the_hash_of_a_name_spreads_over_all_its_bits() -> None:
    seen = [build_pool_name(a_claim(owner_uid=f"u-{n}")).split("-")[-2] for n in range(2000)]

    for position in range(HASH_CHARACTERS):
        assert len({text[position] for text in seen}) == 32


@given(
    job=KUBERNETES_NAMES,
    namespace=KUBERNETES_NAMES,
    uid=st.uuids().map(str),
    attempt=ATTEMPTS,
    created_at=st.integers(min_value=0, max_value=2**33),
)
def test_owner_labels_read_back_as_what_they_were_made_of(
    job: str, namespace: str, uid: str, attempt: int, created_at: int
) -> None:
    claim = claim_of(job, namespace=namespace, uid=uid)
    made = build_owner_labels(claim, attempt=attempt, created_at=created_at, fingerprint="1-abc")
    owner = parse_owner(made)

    assert owner is not None
    assert (owner.kind, owner.namespace, owner.name, owner.slice_name) == ("JobSet", namespace, job, job)
    assert (owner.owner_uid, owner.claim_hash) == (uid, claim.hash)
    assert (owner.attempt, owner.created_at, owner.fingerprint) == (attempt, created_at, "1-abc")


def test_owner_labels_are_legal_kubernetes_labels_of_half_the_budget_at_most() -> None:
    longest = SliceClaim(
        cluster=CLUSTER,
        kind="JobSet",
        namespace="n" * 63,
        name="j" * 63,
        owner_uid="0" * 36,
        slice_key=f"{'n' * 63}/{'s' * 63}",
    )
    made = build_owner_labels(longest, attempt=1295, created_at=2**33, fingerprint="1-" + "a" * 13)

    assert set(made) == OWNER_KEYS
    assert all(re.fullmatch(r"[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?", value) for value in made.values())
    assert all(len(key.rpartition("/")[2]) <= 63 for key in made)
    assert measure_labels(made) <= NODE_LABEL_CHARACTERS_MAX - 100


def test_a_claim_without_a_workload_is_a_bug_of_ours() -> None:
    with pytest.raises(Broken, match="cannot be read back"):
        build_owner_labels(a_claim(name=""), attempt=0, created_at=0, fingerprint="")


def test_a_claim_reads_as_words() -> None:
    assert str(a_claim()) == "JobSet default/train, slice train-workers-0"


@pytest.mark.parametrize(
    "found",
    [
        {},
        {labels.JOBSET_NAME: "train"},
        {labels.MANAGER: "somebody-else", labels.JOBSET_NAME: "train"},
        {labels.MANAGER: labels.MANAGER_VALUE},
        {labels.MANAGER: labels.MANAGER_VALUE, labels.JOBSET_NAME: ""},
    ],
)
def test_a_pool_without_our_manager_or_a_workload_is_nobody_s_of_ours(found: dict[str, str]) -> None:
    assert parse_owner(found) is None


def test_a_pool_of_the_go_provisioner_is_ours_without_uid_and_claim() -> None:
    owner = parse_owner({labels.MANAGER: labels.MANAGER_VALUE, labels.JOBSET_NAME: "train"})

    assert owner is not None
    assert (owner.namespace, owner.name, owner.owner_uid, owner.claim_hash) == ("default", "train", "", "")
    assert owner.created_at is None


@pytest.mark.parametrize("text", ["", "-1", "1.5", "٣", "yesterday", "1e9"])
def test_a_label_that_is_no_number_is_read_as_not_said(text: str) -> None:
    owner = parse_owner(
        {
            labels.MANAGER: labels.MANAGER_VALUE,
            labels.JOBSET_NAME: "a",
            labels.CREATED_AT: text,
            labels.ATTEMPT: text,
        }
    )

    assert owner is not None
    assert (owner.created_at, owner.attempt) == (None, 0)


def test_labels_at_the_budget_pass_and_one_character_more_does_not() -> None:
    full = {"a": "b" * (1024 - 1 - 2)}
    check_label_budget(full)

    with pytest.raises(LabelBudgetExceeded) as refused:
        check_label_budget({"a": full["a"] + "b"})
    assert "1025 characters" in str(refused.value)
    assert refused.value.field == "nodePool.config.labels"
    assert "at most 1024" in refused.value.valid


def test_over_budget_the_longest_label_that_is_not_ours_is_named() -> None:
    with pytest.raises(LabelBudgetExceeded, match=r"example\.com/long"):
        check_label_budget({labels.JOBSET_NAME: "j" * 900, "example.com/long": "x" * 200, "short": "y"})
