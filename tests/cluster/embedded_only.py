"""The tests of this folder that do not run on the real control plane, each with its reason.

Every other test runs on both clusters from one definition. `test_cluster_embedded_only` holds this list to what
pytest collects, in both directions.
"""

from __future__ import annotations

EMBEDDED_ONLY: dict[str, str] = {
    "test_an_expired_version_is_a_status_410_on_request": (
        "a fault of /admin/compact?answer=status: an API server of today answers with an ERROR event in the stream"
    ),
    "test_watches_can_be_made_to_end_in_both_ways_and_go_on_from_their_version": (
        "about /admin/disconnect: an API server ends watches by their time-out, or dies, and then its successor "
        "does not know what was before"
    ),
    "test_logs_answer_with_a_text": (
        "the API server asks the node's kubelet for logs; no node here has one that listens"
    ),
    "test_pods_of_a_node_that_has_gone_are_removed_after_a_while": (
        "a minute of real time: the pod collector gives a node 40 seconds to come back, and looks every 20 "
        "(run there once, by hand: the same in 43 seconds)"
    ),
    "test_completed_indexes_are_read_and_written_alike": (
        "a pure function inside the embedded Job controller; no API in between"
    ),
    "test_the_cluster_ends_quickly_although_a_watch_is_open": (
        "about the end of the process local.cluster; the end of the real one is in tests/controlplane"
    ),
    "test_a_wrong_kubeconfig_is_refused_with_the_field": "no cluster: the kubelet reads a file",
    "test_a_token_of_the_kubeconfig_is_sent": "no cluster: the kubelet reads a file",
}
"""By test function."""

EMBEDDED_ONLY_FILES: dict[str, str] = {
    "test_cluster_store.py": "pure functions and the object store inside the embedded cluster; no API in between",
    "test_cluster_embedded_only.py": "about these lists, and no cluster",
}
"""By test file, where everything in it is of that sort."""
