"""The check of `doctor` whether creations of node pools succeed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cli.diagnosis.findings import Finding, fine, look, poor
from cli.fleet.failed_creations import LASTING, REPEATED, find_failures, read_records
from cli.printing import count, format_age, short_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.access.operator_access import Deployment

SECONDS_MAX = 3600.0
"""Failures that are older say little of now."""


def check_creations(deployment: Deployment, cluster: str) -> list[Finding]:
    """Return whether the creations of the last hour succeeded. A later success ends a failure."""
    project, location = cluster.split("/")[1], cluster.split("/")[3]
    mend = f"gcloud container operations list --location={location} --project={project}"
    return look(f"{short_cluster(cluster)} creations", lambda: _check(deployment, cluster), mend)


def _check(deployment: Deployment, cluster: str) -> Iterator[Finding]:
    check, now = f"{short_cluster(cluster)} creations", deployment.ports.clock.now()
    creations = deployment.ports.pools.list_creations(cluster)
    answers = read_records(deployment.open_logs, cluster, now=now)
    failures = [each for each in find_failures(creations, answers, {}) if now - each.at <= SECONDS_MAX]
    if not failures:
        good = sum(each.ended and not each.error for each in creations)
        text = f"{count(good, 'creation')} succeeded, and none failed in the last hour without a later success"
        yield fine(check, text)
        return
    classes = Counter(each.failure for each in failures).most_common()
    slices = len({each.slice for each in failures})
    last = failures[-1]
    message = f"in the last hour {count(len(failures), 'creation')} of {count(slices, 'slice')} failed"
    told = ", ".join(f"{times} x {failure}" for failure, times in classes)
    serious = len(failures) >= REPEATED or any(each.failure in LASTING for each in failures)
    text = f"{message} without a later success: {told}; {format_age(max(0.0, now - last.at))} ago: {last.error}"
    yield poor(check, text, "tpu-provisioner status, and docs/runbook.md, A creation failed", serious=serious)
