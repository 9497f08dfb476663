"""The Python programs of the build, each by itself: infra/build/*.py.

What is said to a person is a row of tests/infra/test_mistakes.py.
"""

import io
import json
import logging
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from infra.build import queueing
from infra.build.check_plan import find_refusal
from infra.build.in_use import list_own, list_pods
from infra.build.smoke_event import list_lines
from shared.deliver import IDLE, deliver
from shared.engine.outside import Role
from shared.model.messages import EventType, Message, format_message, parse_message
from tests.builders import CLUSTER, a_push
from tests.engine.world import World
from tests.infra.bench import BUILD, a_pool
from tests.program_runs import run_program
from tests.rows import rows

Json = dict[str, Any]


# --- check_plan: which plans are refused, for what carries traffic or data and what bounds the bill

KEPT = (
    *("artifact_registry_repository", "compute_network", "compute_router", "compute_router_nat"),
    *("compute_subnetwork", "container_node_pool", "monitoring_notification_channel", "pubsub_subscription"),
    *("pubsub_topic", "storage_bucket", "storage_bucket_iam_member", "vertex_ai_tensorboard"),
)


def a_change(kind: str, name: str, *actions: str, **after: Any) -> Json:
    """What a plan does with one resource, as `terraform show -json` has it."""
    nodes = {"machine_type": "n2-standard-2", "disk_size_gb": 30}
    before = {"name": name, "node_config": [nodes], "node_count": 3}
    change = {"actions": [*actions], "before": before, "after": before | after}
    return {"address": f"module.environment[0].{kind}.this", "type": kind, "change": change}


def a_deployment(limit: int, identity: str = "p n us-central1 us-central1/training", *, before: int = 16) -> Json:
    made = {"identity": "p n us-central1 us-central1/training", "limit_chips": before}
    asked = {"identity": identity, "limit_chips": limit}
    change = {"actions": ["update"], "before": {"output": made}, "after": {"input": asked}}
    return {"address": "terraform_data.deployment", "type": "terraform_data", "change": change}


def a_new_deployment() -> Json:
    return a_deployment(256) | {"change": {"actions": ["create"], "before": None, "after": {}}}


def refuse(*changes: Json, allowed: str = "") -> str:
    return find_refusal({"resource_changes": [*changes]}, allowed)


@pytest.mark.parametrize("kind", KEPT)
@pytest.mark.parametrize(("actions", "how"), [(("delete",), "is deleted"), (("delete", "create"), "is replaced")])
def test_what_carries_traffic_or_data_is_not_taken_away_unasked(
    kind: str, actions: tuple[str, ...], how: str
) -> None:
    lost = a_change(f"google_{kind}", "x", *actions)
    (word,) = re.findall(rf"^  (\w+/x) {how}$", refuse(lost), re.MULTILINE)

    assert f"set _ALLOW='{word}'" in refuse(lost)
    assert refuse(lost, allowed=f"other {word}") == ""


def a_node_pool(**after: Any) -> Json:
    return a_change("google_container_node_pool", "cpu", "update", **after)


SECOND = a_deployment(16, "p n us-central1 us-central1/second")
NAT = [a_change("google_compute_router", "r", "delete"), a_change("google_compute_router_nat", "n", "delete")]


@rows(
    "changes allowed answer",
    {
        "nat and its router": (NAT, "", "set _ALLOW='nat/n router/r'"),
        "nat, and only its router may go": (NAT, "router/r", "nat/n is deleted"),
        "the cluster, whatever is allowed": (
            [a_change("google_container_cluster", "c", "delete")],
            "cluster/c",
            "takes the cluster c away",
        ),
        "another deployment, whatever is allowed": (
            [SECOND],
            "limit_chips",
            "the state is that of the deployment",
        ),
        "a limit that is forgotten": ([a_deployment(0)], "", "limit_chips is raised from 16 to 0"),
        "other machines": ([a_node_pool(node_config=[{"machine_type": "n2-standard-4"}])], "", "machine_type"),
        "a higher limit, allowed": ([a_deployment(17)], "limit_chips", ""),
        "a first limit": ([a_deployment(17, before=0)], "", ""),
        "the same limit": ([a_deployment(16)], "", ""),
        "a lower limit": ([a_deployment(8)], "", ""),
        "more nodes with larger disks": ([a_node_pool(node_count=4, node_config=[{"disk_size_gb": 50}])], "", ""),
        "a newer version": ([a_node_pool(version="1.34")], "", ""),
        "a new deployment": ([a_new_deployment(), a_change("google_pubsub_topic", "t", "create")], "", ""),
        "a topic that stays": ([a_change("google_pubsub_topic", "t", "no-op")], "", ""),
    },
)
def test_only_what_takes_away_or_weakens_is_refused(changes: list[Json], allowed: str, answer: str) -> None:
    refusal = refuse(*changes, allowed=allowed)

    assert answer in refusal
    assert bool(refusal) is bool(answer)


# --- in_use: what keeps a destroy from beginning, pools of the deployment and pods of people


NOT_OF_PEOPLE = (
    *("kube-system", "kube-public", "kube-node-lease", "gke-managed-system", "gke-managed-cim", "gmp-system"),
    *("gmp-public", "gke-gmp-system", "tpu-provisioner", "jobset-system", "kueue-system"),
)


def is_in_use(namespace: str = "a", *, node: str = "node", phase: str = "Running", owner: str = "Job") -> bool:
    """Return whether a pod of a namespace keeps a destroy from beginning."""
    metadata = {"namespace": namespace, "name": "pod", "ownerReferences": [{"kind": owner}]}
    pod: Json = {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}
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


# --- queueing: JobSet and Kueue come from their published modules, with the content of go.sum


def a_module(**files: str) -> bytes:
    """A module's zip as the proxy serves it."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"sigs.k8s.io/jobset@v0.11.1/{name.replace('__', '/')}", text)
    return content.getvalue()


def test_another_content_than_that_of_the_checksum_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the module proxy served something else than go\.sum says"):
        queueing.unpack(a_module(config__x="evil"), "jobset", "v0.11.1", tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match=r"jobset: v1 has no known checksum; valid: v0\.11\.1, v0\.12\.0, none"):
        queueing.find_sum("jobset", "v1")


def test_the_manifests_get_the_releases_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = a_module(config__default__kustomization="x", config__default__other="y", other__y="z")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        monkeypatch.setattr(queueing, "find_sum", lambda *_: queueing.hash_module(archive))
        queueing.unpack(content, "jobset", "v0.11.1", tmp_path)
        assert queueing.hash_module(archive) == "h1:4NyStJuDfMLlNHtp5605yLMVvfU8ZF2lhjbtl9Ciu0M="

    assert sorted(path.name for path in tmp_path.iterdir()) == ["config", "kustomization.yaml"]
    (image,) = json.loads((tmp_path / "kustomization.yaml").read_text())["images"]
    assert (image["newName"], image["newTag"]) == ("registry.k8s.io/jobset/jobset", "v0.11.1")


@pytest.mark.cluster
@pytest.mark.tool
@pytest.mark.parametrize(("product", "version"), [("jobset", "v0.11.1"), ("kueue", "v0.15.2")])
def test_a_published_module_has_go_s_own_hash_and_is_built(product: str, version: str, tmp_path: Path) -> None:
    module = f"sigs.k8s.io/{product}@{version}"
    said = run_program("go", "mod", "download", "-json", module, cwd=tmp_path, succeeds=True).stdout
    queueing.unpack(Path(json.loads(said)["Zip"]).read_bytes(), product, version, tmp_path)

    text = run_program("kubectl", "kustomize", tmp_path, succeeds=True).stdout
    assert f"image: registry.k8s.io/{product}/{product}:{version}" in text


# --- smoke_event: an event that the function reads, answers and logs


UID = "7b9cf4de-0000-4000-8000-000000000000"


def read_message() -> Message:
    """The message as the smoke test publishes it."""
    _, attributes, data = list_lines(CLUSTER, UID)
    return Message(data.encode(), dict(each.split("=", 1) for each in attributes.split(",")))


def test_the_event_is_what_the_exporter_would_send() -> None:
    message = read_message()
    event = parse_message(message.data, message.attributes)

    assert (event.type, event.cluster, event.subject.uid) == (EventType.DEMAND, CLUSTER, UID)
    assert message.attributes == format_message(event).attributes | {"ce-id": UID}


def test_the_function_writes_the_record_that_the_smoke_test_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "functions"):
        deliver(Role.PROVISION, a_push(read_message()), World().ports)

    (record,) = caplog.records
    assert (record.message, vars(record)["event_id"]) == (IDLE, UID)
    assert f'jsonPayload.message=\\"{IDLE}\\"' in (BUILD / "smoke.sh").read_text()
