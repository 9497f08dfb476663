"""Asking the cluster what it refuses: in its words, not too often, never while something runs."""

from typing import Any

import httpx
import pytest

from demo.loop.asking import Asker
from demo.loop.progress import NO_JOBS, Refusal, Refuser
from demo.loop.states import WorkloadTimeline

Json = dict[str, Any]
JOBSET = {"metadata": {"name": "train", "uid": "set"}, "spec": {"replicatedJobs": [{"name": "slice"}]}}
REFUSED = {"involvedObject": {"uid": "set"}, "reason": "JobCreationFailed", "message": "exceeded quota: small"}
RUNNING = {"metadata": {}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}


class FakeApi:
    """Serves one namespace with what it is given, and counts the requests.

    A number is an HTTP status.
    """

    def __init__(self, **objects: Any) -> None:
        self._objects = {"jobsets": JOBSET, "jobs": [], "pods": [], "events": []} | objects
        self.requests: list[str] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request.url.path)
        found = next(value for name, value in self._objects.items() if f"/{name}" in request.url.path)
        if isinstance(found, int):
            return httpx.Response(found, json={}, request=request)
        return httpx.Response(200, json=found if found is JOBSET else {"items": found}, request=request)


def asker(api: FakeApi) -> Asker:
    return Asker(httpx.Client(base_url="http://kubernetes", transport=httpx.MockTransport(api.answer)))


WORKLOAD = WorkloadTimeline("default", "train")


def test_what_the_cluster_refuses_is_a_refusal_of_the_cluster() -> None:
    ((workload, refusals),) = asker(FakeApi(events=[REFUSED])).find_refused([WORKLOAD], now=100.0)
    message = "no Jobs: JobCreationFailed: exceeded quota: small"
    assert workload is WORKLOAD
    assert refusals == [Refusal("default", "train", "", NO_JOBS, message, Refuser.CLUSTER)]


def test_what_may_only_be_slow_is_no_refusal_but_is_described() -> None:
    one = asker(FakeApi())
    assert one.find_refused([WORKLOAD], now=100.0) == []
    assert one.describe([WORKLOAD]) == ["default/train: no Jobs, and no Event gives the reason"]


def test_nothing_is_final_while_a_pod_of_any_workload_runs() -> None:
    assert asker(FakeApi(events=[REFUSED], pods=[RUNNING])).find_refused([WORKLOAD], now=100.0) == []


def test_it_does_not_ask_again_at_once() -> None:
    api = FakeApi(events=[REFUSED])
    one = asker(api)
    one.find_refused([WORKLOAD], now=100.0)
    count = len(api.requests)
    assert one.find_refused([WORKLOAD], now=101.0) == []
    assert len(api.requests) == count
    assert one.find_refused([WORKLOAD], now=103.0) != []


def test_a_workload_that_is_gone_lacks_nothing() -> None:
    one = asker(FakeApi(jobsets=404))
    assert one.find_refused([WORKLOAD], now=100.0) == []
    assert one.describe([WORKLOAD]) == []


@pytest.mark.parametrize("what", ["jobsets", "jobs", "events"])
def test_an_api_that_fails_is_asked_again_later_and_said_in_a_description(what: str) -> None:
    one = asker(FakeApi(**{what: 503}))
    assert one.find_refused([WORKLOAD], now=100.0) == []
    assert "does not answer" in one.describe([WORKLOAD])[0]
