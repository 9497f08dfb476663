"""A demand's candidates: what a list means for pods, and refusals before anything is bought."""

from typing import Any

import pytest

from shared.capacity_texts import CapacityPolicy, read_ways
from shared.model import labels
from shared.model.names import Try
from shared.model.workloads import Toleration
from shared.needs.nodepool import Demand
from shared.needs.ways import WAYS_MAX
from tests.builders import ZONE, a_jobset, a_template, settings
from tests.demands import a_demand, a_pool_body, want
from tests.rows import rows
from tests.rules.asked_shapes import refuse_shape

SPOT_TOLERATION = (Toleration(key=labels.SPOT, operator="Exists"),)
LIST = """
- reservations: {specific: [{name: train}]}
  location: {zones: [us-east5-a]}
- spot: true
  location: {zones: [us-east5-a, us-east5-b]}
- {}
- flexStart: {enabled: true}
  maxRunDurationSeconds: 86400
"""
NAMES = [
    "reservation train in us-east5-a",
    "spot in us-east5-a",
    "spot in us-east5-b",
    f"on-demand in {ZONE}",
    f"flex-start in {ZONE}",
]


def listing(text: str, **shape: Any) -> dict[str, Any]:
    """A pod's template with the annotation, and by default a toleration of spot nodes."""
    annotations = {labels.CAPACITY: text} | shape.pop("annotations", {})
    return {"tolerations": SPOT_TOLERATION, "annotations": annotations, **shape}


def names(demand: Demand) -> list[str]:
    return [str(each) for each in demand.need.ways]


# --- the list -------------------------------------------------------------------------------------


def test_each_zone_and_each_reservation_of_an_item_is_one_candidate() -> None:
    demand = a_demand(**listing(LIST))
    two = "- reservations: {specific: [{name: a}, {name: b}]}\n  location: {zones: [us-east5-a, us-east5-c]}"
    twice = [f"reservation {name} in us-east5-{zone}" for zone in "ac" for name in "ab"]

    assert names(demand) == NAMES
    assert [str(way.tier) for way in want(a_jobset(template=a_template(**listing(LIST)))).needs[0].ways] == [
        *("reservation", "spot", "spot", "on-demand", "flex-start")
    ]
    assert names(a_demand(**listing(two))) == twice


def test_pods_that_may_run_in_several_zones_get_a_list_of_them() -> None:
    text = "- location: {zones: [us-east5-a, us-east5-c]}"
    demand = a_demand(**listing(text, node_affinity={labels.ZONE: ("us-east5-a", "us-east5-c")}))

    assert names(demand) == ["on-demand in us-east5-a", "on-demand in us-east5-c"]


def test_a_pool_is_made_of_its_candidate_and_names_it() -> None:
    demand = a_demand(**listing(LIST))
    first, third, last = (
        a_pool_body(demand, candidate=number, tried=Try(candidate=number)) for number in (0, 2, 4)
    )

    assert first["config"]["reservationAffinity"]["values"] == ["train"]
    assert [each["locations"] for each in (first, third, last)] == [["us-east5-a"], ["us-east5-b"], [ZONE]]
    assert (third["config"]["spot"], last["config"]["maxRunDuration"]) == (True, "86400s")
    marks = [each["config"]["labels"].get(labels.CANDIDATE) for each in (first, third, last)]
    assert marks == [None, "2", "4"]


def test_without_a_choice_there_is_no_label() -> None:
    for shape in ({}, listing("- spot: true")):
        demand = a_demand(**shape)
        pool = a_pool_body(demand)
        assert labels.CANDIDATE not in pool["config"]["labels"]
        assert demand.place == str(demand.way.tier)


def test_a_list_is_no_part_of_the_key_of_a_need() -> None:
    """So a list that comes, goes or changes never makes a slot look different."""
    shapes: list[dict[str, Any]] = [{"tolerations": SPOT_TOLERATION}, listing(LIST), listing("- spot: true")]

    assert len({want(a_jobset(template=a_template(**shape))).needs[0].key for shape in shapes}) == 1


# --- the operator's policy ------------------------------------------------------------------------


def policy(namespaces: str = "*", accelerators: str = "*", text: str = LIST) -> Any:
    return CapacityPolicy(namespaces=(namespaces,), accelerators=(accelerators,), ways=read_ways(text))


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ((policy(),), NAMES),
        ((policy("other"), policy(text="- spot: true\n- {}")), [f"spot in {ZONE}", f"on-demand in {ZONE}"]),
        ((policy(accelerators="tpu-v5*"),), [f"on-demand in {ZONE}"]),
        ((policy(accelerators="tpu-v6e-*"), policy(text="- {}")), NAMES),
        ((policy("other"),), [f"on-demand in {ZONE}"]),
    ],
)
def test_the_first_policy_that_fits_counts(policies: Any, expected: list[str]) -> None:
    demand = a_demand(use=settings(capacity_policies=policies), tolerations=SPOT_TOLERATION)

    assert names(demand) == expected


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({}, [NAMES[0], *NAMES[3:]]),  # no toleration of spot
        ({"selectors": {labels.SPOT: "true"}}, NAMES[1:3]),
        (
            {"selectors": {labels.ZONE: "us-east5-a"}, "tolerations": SPOT_TOLERATION},
            [*NAMES[:2], "on-demand in us-east5-a", "flex-start in us-east5-a"],
        ),
        ({"selectors": {labels.RESERVATION_NAME: "train"}}, [NAMES[0]]),
        ({"selectors": {labels.RESERVATION_NAME: "other"}}, [f"reservation other in {ZONE}"]),
        ({"selectors": {labels.PROVISIONING: "standard"}}, [NAMES[0], NAMES[3]]),
    ],
)
def test_of_a_policy_only_what_the_pods_can_use_counts(shape: dict[str, Any], expected: list[str]) -> None:
    demand = a_demand(use=settings(capacity_policies=(policy(),)), **shape)

    assert names(demand) == expected


def test_a_pod_s_own_list_counts_instead_of_a_policy() -> None:
    use = settings(capacity_policies=(policy(),))

    assert names(a_demand(use=use, **listing("- {}"))) == [f"on-demand in {ZONE}"]


def test_forced_on_demand_knows_no_list() -> None:
    demand = a_demand(use=settings(force_on_demand=True, capacity_policies=(policy(),)), **listing(LIST))

    assert names(demand) == [f"on-demand in {ZONE}"]


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("- spot: true", {"tolerations": ()}, "candidate 1, spot in us-east5-b: the pods do not tolerate"),
        (
            "- {}\n- location: {zones: [us-west1-c]}",
            {},
            "us-west1-c: topology.kubernetes.io/zone: not a zone of the",
        ),
        ("- location: {zones: [mars]}", {}, "valid: a zone of us-east5"),
        (
            "- location: {zones: [us-east5-a]}",
            {"selectors": {labels.ZONE: "us-east5-c"}},
            "us-east5-c'); valid: us-east5-a, as these nodes have it",
        ),
        (
            "- location: {zones: [us-east5-a]}",
            {"node_affinity": {labels.ZONE: ("us-east5-b", "us-east5-c")}},
            "In us-east5-b, us-east5-c'); valid: us-east5-a, as",
        ),
        (
            "- {}",
            {"selectors": {labels.SPOT: "true"}},
            f"{labels.SPOT}: the pods do not accept the nodes that they would get",
        ),
        (
            "- reservations: {specific: [{name: other}]}",
            {"selectors": {labels.RESERVATION_NAME: "train"}},
            "In train'); valid: other, as these nodes have it",
        ),
        ("- reservations: {specific: [{name: 'no name'}]}", {}, "not a name (got 'no name')"),
        ("- {}\n- {}", {}, "candidate 2, on-demand in us-east5-b: the same as candidate 1"),
        (
            "- flexStart: {enabled: true}\n- {}",
            {},
            "candidate 1 is flex-start, which waits without end, so this one is never tried",
        ),
        (
            "- flexStart: {enabled: true}\n- {}",
            {"annotations": {labels.FLEX_START_WAIT: "0"}},
            f"valid: flex-start as the last candidate, or the annotation {labels.FLEX_START_WAIT}",
        ),
        ("- flexStart: {enabled: true}\n  maxRunDurationSeconds: 9", {}, "Expected `int` >= 600 at [0].maxRun"),
        (
            "- location: {zones: [" + ", ".join(f"us-east5-z{number}" for number in range(17)) + "]}",
            {},
            f"each zone and each reservation of an item is one; valid: at most {WAYS_MAX}",
        ),
    ],
)
def test_a_candidate_that_the_pods_could_not_run_on_is_refused_by_name(
    text: str, shape: dict[str, Any], message: str
) -> None:
    found = refuse_shape(**listing(text, **shape))

    assert found.reason == "capacity_conflict"
    assert found.message.startswith(f"annotation {labels.CAPACITY}: ")
    assert message in found.message


@pytest.mark.parametrize(
    ("annotation", "setting", "expected"), [(None, 0, 0), (None, 600, 600), ("86400", 600, 86400), ("0", 600, 0)]
)
def test_flex_start_waits_for_as_long_as_the_annotation_says_or_else_the_setting(
    annotation: str | None, setting: int, expected: int
) -> None:
    annotations = {} if annotation is None else {labels.FLEX_START_WAIT: annotation}
    demand = a_demand(use=settings(flex_start_wait_seconds=setting), annotations=annotations)

    assert demand.need.flex_wait_seconds == expected


@pytest.mark.parametrize("text", [" ", "a day", "-1", "1.5", "604801"])
def test_a_wait_that_is_no_such_number_is_refused(text: str) -> None:
    found = refuse_shape(annotations={labels.FLEX_START_WAIT: text})
    words = f"not a number within the bounds (got '{text}'); valid: 0 to 604800 seconds"

    assert found.reason == "capacity_conflict"
    assert f"{labels.FLEX_START_WAIT}: {words}" in found.message


def test_flex_start_may_stand_before_others_if_its_wait_has_an_end() -> None:
    text = "- flexStart: {enabled: true}\n- {}"
    flexible, plain = f"flex-start in {ZONE}", f"on-demand in {ZONE}"

    assert names(a_demand(**listing(text, annotations={labels.FLEX_START_WAIT: "600"}))) == [flexible, plain]
    assert names(a_demand(use=settings(flex_start_wait_seconds=600), **listing(text))) == [flexible, plain]


def test_a_shorter_run_time_is_another_candidate() -> None:
    text = "- flexStart: {enabled: true}\n- flexStart: {enabled: true}\n  maxRunDurationSeconds: 600"
    demand = a_demand(**listing(text, annotations={labels.FLEX_START_WAIT: "600"}))

    assert [way.run_seconds for way in demand.need.ways] == [604_800, 600]


def test_a_list_that_cannot_be_read_is_refused_with_its_place() -> None:
    found = refuse_shape(annotations={labels.CAPACITY: "spot"})

    assert found.reason == "capacity_conflict"
    assert "Expected `array`, got `str`" in found.message


@pytest.mark.parametrize(
    ("allowed", "shown"),
    [
        ((), "none; an operator can add to the list"),
        (("lender-2/*",), "lender-2/*"),
        (("lender-1/other",), "lender-1/other"),
    ],
)
@rows(
    "shape",
    {
        "listed": listing("- reservations: {specific: [{name: train, project: lender-1}]}"),
        "selected": {"selectors": {labels.RESERVATION_NAME: "train", labels.RESERVATION_PROJECT: "lender-1"}},
    },
)
def test_a_reservation_of_another_project_is_used_only_if_the_operator_lists_it(
    shape: dict[str, Any], allowed: tuple[str, ...], shown: str
) -> None:
    found = refuse_shape(settings(allowed_reservations=allowed), **shape)
    demand = a_demand(use=settings(allowed_reservations=("lender-*/train",)), **shape)

    assert found.reason == "request_not_allowed"
    assert f"(got 'lender-1/train'); valid: {shown}" in found.message
    assert demand.way.reservation.path == "projects/lender-1/reservations/train"


@pytest.mark.parametrize(
    "shape",
    [listing("- reservations: {specific: [{name: train}]}"), {"selectors": {labels.RESERVATION_NAME: "train"}}],
    ids=["listed", "selected"],
)
def test_an_operator_can_limit_the_reservations_of_the_own_project(shape: dict[str, Any]) -> None:
    found = refuse_shape(settings(allowed_reservations=("spare-*",)), **shape)

    assert found.reason == "request_not_allowed"
    assert "allowed_reservations does not list this value (got 'train'); valid: spare-*" in found.message
    assert a_demand(use=settings(allowed_reservations=("tr*",)), **shape).way.reservation.name == "train"
    assert a_demand(use=settings(allowed_reservations=())).way.reservation.name == ""


@pytest.mark.parametrize(("project", "path"), [("p", "r"), ("lender-1", "projects/lender-1/reservations/r")])
def test_what_the_operator_s_policy_names_is_allowed(project: str, path: str) -> None:
    text = f"- reservations: {{specific: [{{name: r, project: {project}}}]}}"
    demand = a_demand(use=settings(capacity_policies=(policy(text=text),)))

    assert demand.way.reservation.path == path
