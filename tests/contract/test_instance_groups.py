"""The machines of a pool, from answers in the form of Compute Engine's REST API.

https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from shared.edges.gke import GkePools
from shared.model.errors import Unavailable
from shared.model.pools import FillError, Machines, NodePool, PoolStatus
from tests.canned import Canned, CannedHttp, open_pools

CALLS = {"listManagedInstances": "POST", "listErrors": "GET"}
ROOT = "https://www.googleapis.com/compute/v1/projects/p/zones"
CODE, MESSAGE = "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "The zone 'projects/p/zones/us-a' has not enough."
TOLD_AT, TOLD = 1_800_000_000.0, "2027-01-15T00:00:00.000-08:00"
ERRORS = {"errors": [{"code": CODE, "message": MESSAGE}]}
STOCKOUT = FillError(f"{CODE}: {MESSAGE}")
DATED = FillError(STOCKOUT.message, TOLD_AT)


def read(answers: Mapping[str, object], groups: str = "us-a/g-grp", nodes: int = 1) -> tuple[Machines, list[str]]:
    """Return the machines of a pool, and the calls by the end of their paths."""
    asked = list[str]()

    def answer(method: str, url: str) -> Canned:
        path, _, page = url.partition("?")
        asked.append(path.rpartition("/")[2])
        assert (method, "/compute/v1/projects/p/" in path) == (CALLS.get(asked[-1], "GET"), True)
        found = answers.get(page or (asked[-1] if asked[-1] in CALLS else "get"), {})
        return Canned(found if isinstance(found, bytes) else json.dumps(found).encode())

    places = (each.split("/") for each in groups.split())
    urls = tuple(f"{ROOT}/{zone}/instanceGroupManagers/{group}" for zone, group in places)
    pool = NodePool(name="p", status=PoolStatus.RUNNING, group_urls=urls, maximum=nodes)
    return open_pools(CannedHttp(answer), GkePools).read_machines(pool), asked


def row(number: int, status: str = "", action: str = "CREATING", **more: Any) -> dict[str, Any]:
    """Return an instance as the group lists it: without a status as long as there is no machine."""
    own = {"instance": f"{ROOT}/us-a/instances/gke-c-p-{number:04}", "currentAction": action, **more}
    return own | ({"id": str(number), "instanceStatus": status} if status else {})


def listed(*rows: dict[str, Any], **answers: object) -> dict[str, object]:
    return {"listManagedInstances": {"managedInstances": list(rows)} if rows else {}, **answers}


def an_error(at: str | None = TOLD, code: str = CODE) -> dict[str, Any]:
    return {"error": {"code": code, "message": MESSAGE}} | ({"timestamp": at} if at else {})


def told(*items: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(items)} if items else {}


def bulk(*, in_progress: bool = True, error: object = ERRORS) -> dict[str, Any]:
    check = {"timestamp": TOLD} | ({"error": error} if error else {})
    return {"status": {"bulkInstanceOperation": {"inProgress": in_progress, "lastProgressCheck": check}}}


RUNS, FAILS = row(1, "RUNNING", "NONE"), row(2, lastAttempt={"errors": ERRORS})
GROUP = {"targetSize": 2, "status": {"isStable": False}}
PAGES = {
    "listManagedInstances": {"managedInstances": [row(0)], "nextPageToken": "a=/b"},
    "pageToken=a%3D%2Fb": {"managedInstances": [row(1)], "nextPageToken": "c"},
    "pageToken=c": {"managedInstances": [row(2)]},
}
LATER = FillError(STOCKOUT.message, TOLD_AT + 60)
ALL = ["listManagedInstances", "g-grp", "listErrors"]


@pytest.mark.parametrize(
    ("answers", "machines", "calls"),
    [
        (listed(RUNS, row(2, "STAGING")), Machines(present=2), 1),
        (listed(row(1, "PROVISIONING"), row(2)), Machines(present=1, coming=1), 1),
        (listed(row(1), row(2), get=GROUP), Machines(coming=2), 2),
        (listed(row(1), FAILS, get=GROUP), Machines(coming=1, errors=(STOCKOUT,)), 2),
        (listed(FAILS, FAILS, get=GROUP), Machines(errors=(STOCKOUT,)), 3),
        (listed(row(1, "RUNNING", "DELETING"), row(2, "", "ABANDONING"), get=GROUP), Machines(), 3),
        (listed(row(1, "TERMINATED", "NONE")), Machines(coming=1), 2),
        (listed(row(1), row(2), get=bulk()), Machines(errors=(DATED,)), 3),
        (listed(row(1), row(2), get=bulk(error=None)), Machines(coming=2), 2),
        (listed(row(1), row(2), get=bulk(in_progress=False)), Machines(coming=2), 2),
        (listed(get=bulk(in_progress=False)), Machines(errors=(DATED,)), 3),
        (listed(row(1), row(2), get=bulk(error={})), Machines(coming=2), 2),
        (listed(get={"targetSize": 0}), Machines(), 3),
    ],
)
def test_the_machines_of_a_group_are_counted_with_what_keeps_the_others_away(
    answers: dict[str, object], machines: Machines, calls: int
) -> None:
    assert read(answers) == (machines, ALL[:calls])


@pytest.mark.parametrize(
    ("answers", "nodes", "machines"),
    [
        (listed(RUNS, FAILS), 1, Machines(present=1, errors=(STOCKOUT,))),
        (listed(RUNS, FAILS, listErrors=told(an_error())), 1, Machines(present=1, errors=(STOCKOUT, DATED))),
        # The autoscaler takes back what it asked for in vain: only the list of errors says so.
        (listed(RUNS, listErrors=told(an_error())), 3, Machines(present=1, errors=(DATED,))),
    ],
)
def test_a_group_that_lacks_machines_beside_others_says_why_and_since_when(
    answers: dict[str, object], nodes: int, machines: Machines
) -> None:
    assert read(answers, nodes=nodes) == (machines, ["listManagedInstances", "listErrors"])


@pytest.mark.parametrize(
    ("items", "errors"),
    [
        ([an_error()], (DATED,)),
        ([an_error(None)], (STOCKOUT,)),
        ([an_error("yesterday")], (STOCKOUT,)),
        ([an_error(), an_error()], (DATED,)),
        ([an_error(), an_error("2027-01-15T08:01:00Z")], (DATED, LATER)),
        ([{"timestamp": TOLD}], ()),
        ([an_error(code="")], (FillError(MESSAGE, TOLD_AT),)),
        ([{"error": {"code": CODE}}], (FillError(CODE),)),
    ],
)
def test_the_errors_of_a_group_are_read_with_their_times(
    items: list[dict[str, Any]], errors: tuple[FillError, ...]
) -> None:
    assert read(listed(get=GROUP, listErrors=told(*items)))[0] == Machines(errors=errors)


def test_all_pages_and_all_groups_of_a_pool_are_summed_and_one_without_any_is_not_asked() -> None:
    assert read(PAGES)[0].coming == 3
    assert read(listed(RUNS, row(2)), "us-a/a-grp us-b/b-grp")[0] == Machines(present=2, coming=2)
    assert read({}, "") == (Machines(), [])


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
        read(answers)
