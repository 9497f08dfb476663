"""Asks the cluster why workloads make no progress. It only reads; `standing` interprets."""

from collections.abc import Iterable
from typing import Any

import httpx

from demo.loop.progress import Refusal, Refuser
from demo.loop.standing import JOBSET_NAME, Standing, read_standing
from demo.loop.states import WorkloadTimeline

_ASK_SECONDS = 2.0
"""At most one round of questions in this time."""
Json = dict[str, Any]


class Asker:
    """Finds out what the cluster itself refuses to the JobSets of a run.

    The client's base URL is the Kubernetes API, and it may read everything there.
    """

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._asked_at = 0.0

    def find_refused(
        self, workloads: Iterable[WorkloadTimeline], now: float
    ) -> list[tuple[WorkloadTimeline, list[Refusal]]]:
        """Return the workloads whose objects the cluster refuses to create, with its reasons.

        Nothing is final while a pod of any of them runs: its end may free what the others wait for.
        An API that does not answer is asked again later.

        Args:
            workloads: Those that are not over, all quiet for long.
            now: Unix seconds; asked too often, it answers nothing.
        """
        if now - self._asked_at < _ASK_SECONDS:
            return []
        self._asked_at = now
        try:
            standings = [(each, self._ask(each)) for each in workloads]
        except httpx.HTTPError:
            return []
        if any(standing.runs for _, standing in standings):
            return []
        found = [(each, _refusals(each, standing)) for each, standing in standings]
        return [(each, refusals) for each, refusals in found if refusals]

    def describe(self, workloads: Iterable[WorkloadTimeline]) -> list[str]:
        """Return one sentence for each thing that the workloads lack."""
        try:
            return [
                f"{each.namespace}/{each.name}: {_prefix(lack.job)}{lack.message}"
                for each in workloads
                for lack in self._ask(each).lacks
            ]
        except httpx.HTTPError as error:
            return [f"the cluster does not answer, so it is unknown what is missing: {error!r}"]

    def _ask(self, workload: WorkloadTimeline) -> Standing:
        namespace = workload.namespace
        answer = self._client.get(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets/{workload.name}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return Standing()
        own = {"labelSelector": f"{JOBSET_NAME}={workload.name}"}
        return read_standing(
            answer.raise_for_status().json(),
            jobs=self._list(f"/apis/batch/v1/namespaces/{namespace}/jobs", own),
            pods=self._list(f"/api/v1/namespaces/{namespace}/pods", own),
            events=self._list(f"/api/v1/namespaces/{namespace}/events", {"fieldSelector": "type=Warning"}),
        )

    def _list(self, path: str, params: dict[str, str]) -> list[Json]:
        items: list[Json] = self._client.get(path, params=params).raise_for_status().json()["items"]
        return items


def _refusals(workload: WorkloadTimeline, standing: Standing) -> list[Refusal]:
    return [
        Refusal(workload.namespace, workload.name, lack.job, lack.reason, lack.message, Refuser.CLUSTER)
        for lack in standing.lacks
        if lack.event
    ]


def _prefix(job: str) -> str:
    return f"{job}: " if job else ""
