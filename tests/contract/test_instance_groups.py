"""The machines of a pool, from answers in the form of Compute Engine's REST API.

https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from shared.edges.gke import InstanceGroups
from shared.edges.google import GoogleAccount
from shared.model.errors import Unavailable
from shared.model.pools import FillError, Machines, NodePool, PoolStatus
from shared.settings import Credentials

CALLS = {"listManagedInstances": "POST", "listErrors": "GET"}
ROOT = "https://www.googleapis.com/compute/v1/projects/p/zones/us-a"
CODE = "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
MESSAGE = "The zone 'projects/p/zones/us-a' does not have enough resources available to fulfill the request."
STOCKOUT = f"{CODE}: {MESSAGE}"
TOLD_AT, TOLD = 1_800_000_000.0, "2027-01-15T00:00:00.000-08:00"
ERRORS = {"errors": [{"code": CODE, "message": MESSAGE}]}


class _Compute(InstanceGroups):
    """Keeps what was asked, and answers by the end of the path."""

    def __init__(self, **answers: object) -> None:
        super().__init__("http://127.0.0.1:9", GoogleAccount(Credentials.ANONYMOUS))
        self.asked: list[tuple[str, Any]] = []
        self.answers = answers

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        self.asked.append((path, body))
        last = path.partition("?")[0].rpartition("/")[2]
        answer = self.answers.get(path.partition("?")[2] or (last if last in CALLS else "get"), {})
        if isinstance(answer, Exception):
            raise answer
        assert method == CALLS.get(last, "GET")
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()


def a_pool_in(*groups: str) -> NodePool:
    urls = tuple(
        f"https://www.googleapis.com/compute/v1/projects/p/zones/{zone}/instanceGroupManagers/{group}"
        for zone, group in (each.split("/") for each in groups)
    )
    return NodePool(name="p", status=PoolStatus.RUNNING, group_urls=urls)


def test_all_pages_of_a_group_are_read() -> None:
    pages = [
        {"managedInstances": [{"instance": f"{ROOT}/instances/n-{number}", "currentAction": "CREATING"}]}
        for number in range(3)
    ]
    answers = {
        "listManagedInstances": pages[0] | {"nextPageToken": "a=/b"},
        "pageToken=a%3D%2Fb": pages[1] | {"nextPageToken": "c"},
        "pageToken=c": pages[2],
        "get": {"targetSize": 3},
    }
    pool = a_pool_in("us-a/g-grp")

    assert _Compute(**answers).read_machines(pool).coming == 3


# --- what keeps machines away ---------------------------------------------------------------------


def row(number: int, status: str = "", action: str = "CREATING", **more: Any) -> dict[str, Any]:
    """Return an instance as the group lists it: without a status as long as there is no machine."""
    found = {
        "instance": f"{ROOT}/instances/gke-c-p-11111111-{number:04}",
        "name": f"gke-c-p-11111111-{number:04}",
        "currentAction": action,
        "version": {"instanceTemplate": f"{ROOT}/instanceTemplates/gke-c-p-11111111", "name": "0-1"},
        **more,
    }
    return found | ({"id": str(number), "instanceStatus": status} if status else {})


def failing(number: int) -> dict[str, Any]:
    return row(number, lastAttempt={"errors": ERRORS})


def listed(*items: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(items)} if items else {}


def an_error(at: str | None = TOLD, code: str = CODE) -> dict[str, Any]:
    details = {"action": "CREATING", "instance": f"{ROOT}/instances/gke-c-p-11111111-0001", "version": {}}
    fields = {"error": {"code": code, "message": MESSAGE}, "instanceActionDetails": details}
    return fields | ({"timestamp": at} if at else {})


def bulk(*, in_progress: bool = True, error: object = ERRORS) -> dict[str, Any]:
    check = {"timestamp": TOLD} | ({"error": error} if error else {})
    status = {"isStable": False, "bulkInstanceOperation": {"inProgress": in_progress, "lastProgressCheck": check}}
    return {"kind": "compute#instanceGroupManager", "name": "g", "targetSize": 2, "status": status}


def read(rows: list[dict[str, Any]], *groups: str, **answers: object) -> tuple[Machines, list[str]]:
    """Return the machines of a pool, and the calls by the end of their paths."""
    compute = _Compute(listManagedInstances={"managedInstances": rows} if rows else {}, **answers)
    found = compute.read_machines(a_pool_in(*(groups or ("us-a/g-grp",))))
    assert all(path.startswith("compute/v1/projects/p/") for path, _ in compute.asked)
    return found, [path.rpartition("/")[2] for path, _ in compute.asked]


GROUP = {"targetSize": 2, "status": {"isStable": False}}


@pytest.mark.parametrize(
    ("rows", "answers", "wanted", "calls"),
    [
        ([row(1, "RUNNING", "NONE"), row(2, "STAGING")], {}, Machines(present=2), 1),
        ([row(1, "PROVISIONING"), row(2)], {}, Machines(present=1, coming=1), 1),
        ([row(1), row(2)], {"get": GROUP}, Machines(coming=2), 2),
        ([row(1), failing(2)], {"get": GROUP}, Machines(coming=1, errors=(FillError(STOCKOUT),)), 2),
        ([failing(1), failing(2)], {"get": GROUP}, Machines(errors=(FillError(STOCKOUT),)), 3),
        ([row(1, "RUNNING", "DELETING"), row(2, "", "ABANDONING")], {"get": GROUP}, Machines(), 3),
        ([row(1, "TERMINATED", "NONE")], {"get": GROUP}, Machines(coming=1), 2),
        ([row(1), row(2)], {"get": bulk()}, Machines(errors=(FillError(STOCKOUT, TOLD_AT),)), 3),
        ([row(1), row(2)], {"get": bulk(error=None)}, Machines(coming=2), 2),
        ([row(1), row(2)], {"get": bulk(in_progress=False)}, Machines(coming=2), 2),
        ([], {"get": bulk(in_progress=False)}, Machines(errors=(FillError(STOCKOUT, TOLD_AT),)), 3),
        ([row(1), row(2)], {"get": bulk(error={})}, Machines(coming=2), 2),
        ([], {"get": GROUP}, Machines(), 3),
        ([], {"get": {"targetSize": 0}}, Machines(), 3),
    ],
)
def test_the_machines_of_a_group_are_counted_with_what_keeps_the_others_away(
    rows: list[dict[str, Any]], answers: dict[str, object], wanted: Machines, calls: int
) -> None:
    found, asked = read(rows, **answers)

    assert found == wanted
    assert asked == ["listManagedInstances", "g-grp", "listErrors"][:calls]


@pytest.mark.parametrize(("items", "times"), [([], [None]), ([an_error()], [None, TOLD_AT])])
def test_a_group_that_has_lost_a_machine_says_since_when_it_cannot_make_it(
    items: list[dict[str, Any]], times: list[float | None]
) -> None:
    found, asked = read([row(1, "RUNNING", "NONE"), failing(2)], listErrors=listed(*items))

    assert found == Machines(present=1, errors=tuple(FillError(STOCKOUT, at) for at in times))
    assert asked == ["listManagedInstances", "listErrors"]


def test_a_group_whose_autoscaler_gave_up_says_why_it_has_no_more_machines() -> None:
    compute = _Compute(
        listManagedInstances={"managedInstances": [row(1, "RUNNING", "NONE")]}, listErrors=listed(an_error())
    )

    machines = compute.read_machines(replace(a_pool_in("us-a/g-grp"), node_count=3))

    assert machines == Machines(present=1, errors=(FillError(STOCKOUT, TOLD_AT),))


@pytest.mark.parametrize(
    ("items", "errors"),
    [
        ([an_error()], (FillError(STOCKOUT, TOLD_AT),)),
        ([an_error(None)], (FillError(STOCKOUT, None),)),
        ([an_error("yesterday")], (FillError(STOCKOUT, None),)),
        ([an_error(), an_error()], (FillError(STOCKOUT, TOLD_AT),)),
        (
            [an_error(), an_error("2027-01-15T08:01:00Z")],
            (FillError(STOCKOUT, TOLD_AT), FillError(STOCKOUT, TOLD_AT + 60)),
        ),
        ([{"timestamp": TOLD}], ()),
        ([an_error(code="")], (FillError(MESSAGE, TOLD_AT),)),
        ([{"error": {"code": CODE}}], (FillError(CODE),)),
    ],
)
def test_the_errors_of_a_group_are_read_with_their_times(
    items: list[dict[str, Any]], errors: tuple[FillError, ...]
) -> None:
    assert read([], get=GROUP, listErrors=listed(*items))[0] == Machines(errors=errors)


def test_the_groups_of_a_pool_are_summed_and_one_without_any_is_not_asked() -> None:
    assert read([row(1, "RUNNING", "NONE"), row(2)], "us-a/a-grp", "us-b/b-grp")[0] == Machines(
        present=2, coming=2
    )
    compute = _Compute()
    assert compute.read_machines(a_pool_in()) == Machines()
    assert compute.asked == []


@pytest.mark.parametrize(
    "answers",
    [
        {"listManagedInstances": b'{"managedInstances": [{"currentAction": "CREATING"}]}'},
        {"listManagedInstances": b'{"managedInstances": [{"instance": "i", "lastAttempt": {"errors": []}}]}'},
        {"listManagedInstances": b"[]"},
        {"get": b'{"status": 2}'},
        {"get": b'{"status": {"bulkInstanceOperation": {"inProgress": "yes"}}}'},
        {"get": GROUP, "listErrors": b'{"items": [{"error": "full"}]}'},
        {"get": GROUP, "listErrors": b"{"},
    ],
)
def test_an_answer_of_another_form_is_an_error_and_no_machine(answers: dict[str, object]) -> None:
    with pytest.raises(Unavailable, match="GKE's answer cannot be read"):
        _Compute(**answers).read_machines(a_pool_in("us-a/g-grp"))
