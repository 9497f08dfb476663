"""What keeps a destroy from beginning: pools of the deployment, and pods of people.

What is said then is a row of tests/infra/test_mistakes.py.
"""

from typing import Any

from infra.build.in_use import list_own, list_pods
from tests.infra.bench import a_pool

NOT_OF_PEOPLE = (
    *("kube-system", "kube-public", "kube-node-lease", "gke-managed-system", "gke-managed-cim", "gmp-system"),
    *("gmp-public", "gke-gmp-system", "tpu-provisioner", "jobset-system", "kueue-system"),
)


def is_in_use(namespace: str = "a", *, node: str = "node", phase: str = "Running", owner: str = "Job") -> bool:
    """Return whether a pod of a namespace keeps a destroy from beginning."""
    metadata = {"namespace": namespace, "name": "pod", "ownerReferences": [{"kind": owner}]}
    pod: dict[str, Any] = {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}
    return list(list_pods({"items": [pod]})) == [f"{namespace}/pod"]


def test_every_pod_counts_but_those_in_googles_and_our_own_namespaces() -> None:
    """Whatever the namespace of a person begins with."""
    assert all(map(is_in_use, ("default", "gke-prod", "gmp-apps", "kube-flow", "tpu-training", "kueue")))
    assert not any(map(is_in_use, NOT_OF_PEOPLE))


def test_what_is_over_not_bound_or_of_a_daemon_does_not_count() -> None:
    assert is_in_use(phase="Pending")
    assert not any((is_in_use(phase="Succeeded"), is_in_use(phase="Failed")))
    assert not any((is_in_use(node=""), is_in_use(owner="DaemonSet")))


def test_only_the_deployments_own_pools_count() -> None:
    others = [a_pool("of-another", deployment="p_other"), a_pool("of-go", deployment=None)]
    others += [a_pool("of-people", manager=""), {"name": "bare"}]

    assert list_own([a_pool("ours"), *others], "a-project_tpu-provisioner") == ["ours"]
