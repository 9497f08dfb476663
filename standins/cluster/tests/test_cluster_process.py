"""The process: its end."""

from pathlib import Path

import httpx

from standins.cluster.tests.cluster_processes import running_cluster
from standins.processes.stand_ins import PATIENCE_SECONDS


def test_the_cluster_ends_quickly_although_a_watch_is_open(tmp_path: Path) -> None:
    """On the embedded cluster only; for the real one see standins/controlplane/tests."""
    with (
        running_cluster(tmp_path) as cluster,
        httpx.Client(base_url=cluster.url, trust_env=False) as http,
        http.stream("GET", "/api/v1/pods", params={"watch": "true"}) as answer,
    ):
        answer.raise_for_status()
        assert cluster.child.end(PATIENCE_SECONDS), "the watch would go on for half an hour"
        assert cluster.child.exit_code == 0
        assert list(answer.iter_lines()) == []
