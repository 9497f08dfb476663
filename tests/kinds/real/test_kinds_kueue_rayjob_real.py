"""A RayJob in a queue of Kueue: it waits, runs, is evicted, runs again and ends. The whole loop.

Ray's dashboards, which say that a job has ended, are a stand-in (`tests.kinds.ray_dashboards`).
"""

import pytest

from tests.kinds.controllers import with_controllers
from tests.kinds.queues import GO, V6E, Queue, a_rayjob
from tests.kinds.ray_dashboards import Dashboards
from tests.lives.cloud import Cloud, wait_for

KUEUE, KUBERAY = "kueue-0.15", "kuberay-1.6"
pytestmark = [*with_controllers(KUEUE, KUBERAY), pytest.mark.usefixtures("dashboards")]


def test_a_queued_rayjob_asks_for_nothing_until_it_is_admitted_and_gives_all_back_when_it_ends(
    cloud: Cloud, dashboards: Dashboards
) -> None:
    queue = Queue(cloud, "rayjob", V6E, stopped=True)

    def submitted(before: str = "") -> str:
        """Return the id of the job, once it runs under another id than before."""
        job = str(queue.workload_object("RayJob").get("status", {}).get("jobId", ""))
        return job if job != before and dashboards.has(job) else ""

    queue.submit("RayJob", a_rayjob(queue.workload))
    queue.wait_word("QuotaReserved")
    assert queue.is_suspended("RayJob")
    assert (queue.pods(), queue.calls()) == ([], [])

    queue.set_policy(GO)
    pods = queue.wait_running(2)
    assert queue.pools_of(pods) == queue.pools()
    assert len(queue.pools()) == 1
    assert queue.accelerators_of(pods) == {V6E}
    first = wait_for("the job is submitted", submitted)

    # Evicted, its RayCluster is deleted, not suspended: there is nothing that a grace could be for.
    queue.evict()
    queue.wait_no_pods()
    assert queue.is_suspended("RayJob")
    queue.wait_no_pools()
    queue.readmit()
    queue.wait_running(2)
    again = wait_for("the job is submitted again", lambda: submitted(first))

    dashboards.end(again, "SUCCEEDED")
    queue.wait_word("Finished")
    queue.wait_no_pools()
    queue.delete("RayJob")
    queue.clear(pools=2)
