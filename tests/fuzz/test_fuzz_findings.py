"""What the fuzzing found, as short inputs; docs/evidence/fuzzing.md lists the findings."""

import base64
import io
import json
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from rich.console import Console

from cli.exit_codes import BadInput
from cli.planning.manifest_yaml import read_yaml
from cli.planning.manifests import Found, read_manifests
from cli.planning.plan import plan
from cli.planning.plan_table import print_plan
from demo.loop.demo_manifests import BadManifest, load
from exporter.metrics import Metrics
from exporter.watched_kinds import watch_pods, watch_workloads
from shared.core.errors import Misconfigured, TooManySlices, Unavailable
from shared.core.kinds.jobset import JOBSET
from shared.core.kinds.table import list_slices
from shared.edges.kubernetes_cluster import KubernetesCluster
from shared.edges.workload_objects import read_workload
from shared.environment import read_settings
from tests.builders import CLUSTER, a_demand_event, a_push, settings
from tests.component.world import World
from tests.fuzz.canned_http import Canned, CannedHttp, open_pools
from tests.fuzz.canned_kubernetes import CannedKubernetes
from tests.fuzz.recording import recording
from tests.fuzz.scenes import list_scenes
from tests.fuzz.spoiling import DEEP
from tests.fuzz.watch_streams import count_skipped, follow

DEEP_LIST = b"[" * DEEP + b"]" * DEEP
STEADY, OTHER, *_ = list_scenes()


def read_text(text: str) -> Found:
    """What a manifest holds; raises BadInput with the first thing that is wrong in it."""
    with mock.patch("sys.stdin", io.StringIO(text)):
        found = read_manifests(["-"])
    if found.problems:
        raise BadInput(str(found.problems[0]))
    return found


def follow_jobsets(listed: bytes, *, pods: bool) -> tuple[list[str], float, list[dict[str, Any]]]:
    """Return the UIDs of the events, the count of unreadable objects, and the log records."""
    watched: Any = watch_pods(JOBSET) if pods else watch_workloads(JOBSET)
    steady = STEADY.pod if pods else STEADY.workload
    metrics = Metrics()
    gone = b'{"type": "DELETED", "object": ' + steady + b"}\n"
    reported, records = follow(watched, (listed, steady), gone, metrics)
    return [event.subject.uid for event in reported], count_skipped(watched, metrics), records


PUSH = a_push(a_demand_event())


@pytest.mark.parametrize(
    "body",
    [
        PUSH.replace(b'"2027-01-15T08:00:01Z"', DEEP_LIST),
        PUSH.replace(json.loads(PUSH)["message"]["data"].encode(), base64.b64encode(DEEP_LIST)),
    ],
    ids=["the envelope", "its data"],
)
def test_a_push_that_nests_too_deeply_is_kept_as_a_dead_letter(body: bytes) -> None:
    with recording() as records:
        world = World(records)

        answer = world.deliver(body)

    assert answer.status == 200
    assert [each.attributes["tpu-provisioner-reason"] for each in world.dead_letters.kept] == ["event_malformed"]


@pytest.mark.parametrize("pods", [True, False], ids=["a pod", "a workload"])
def test_an_object_with_broken_text_is_counted_named_and_passed_over(pods: bool) -> None:
    listed = (OTHER.pod if pods else OTHER.workload).replace(
        b'"resourceVersion": ', b'"selfLink": "\xff", "resourceVersion": '
    )
    broken = listed.replace(b'"uid": "uid-of', b'"uid": "\xff-of', 1)

    reported, unreadable, _ = follow_jobsets(broken, pods=pods)

    assert reported
    assert unreadable == 1


def test_a_pod_that_a_listing_leaves_out_is_counted() -> None:
    listed = OTHER.pod.replace(b'"phase": "Pending"', b'"phase": 7')

    reported, unreadable, records = follow_jobsets(listed, pods=True)

    assert reported
    assert unreadable == 1
    assert [each["name_of_object"] for each in records if "name_of_object" in each] == [
        json.loads(OTHER.pod)["metadata"]["name"]
    ]


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+23:00"])
def test_a_time_that_utc_cannot_write_is_no_time(time: str) -> None:
    listed = OTHER.workload.replace(
        b'"generation"', b'"deletionTimestamp": "' + time.encode() + b'", "generation"'
    )

    reported, unreadable, _ = follow_jobsets(listed, pods=False)

    assert reported == [f"uid-of-{OTHER.name}", f"uid-of-{STEADY.name}"]
    assert unreadable == 0


def test_groups_of_fewer_than_no_slices_do_not_hide_too_many() -> None:
    body = json.loads(STEADY.workload)
    (group,) = body["spec"]["replicatedJobs"]
    body["spec"]["replicatedJobs"] = [group | {"replicas": 10**9}, group | {"name": "b", "replicas": -(10**9)}]

    with pytest.raises(TooManySlices):
        list_slices(read_workload(STEADY.kind, body))


def test_a_node_without_the_label_of_its_pool_is_of_no_pool() -> None:
    canned = CannedKubernetes(scene=OTHER, workload=OTHER.workload, pod=OTHER.pod, steady=STEADY)
    canned.node = b'{"metadata": {"name": "node-0"}}'

    assert KubernetesCluster(canned.open()).find_pools_of_nodes(["a"]) == {}


def test_a_variable_that_is_not_utf8_is_refused_by_its_name() -> None:
    with pytest.raises(Misconfigured, match="TPU_PROVISIONER_NODE_SERVICE_ACCOUNT: is not valid"):
        read_settings({"TPU_PROVISIONER_NODE_SERVICE_ACCOUNT": "\udcff"})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 2_000, id="nested too deeply"),
        pytest.param("kind: Job\nmany: " + "9" * 5_000, id="a number of 5,000 digits"),
        pytest.param('{"kind": "Job", "metadata": {"name": "\\ud800"}}', id="half a character"),
    ],
)
def test_a_manifest_that_yaml_cannot_hold_is_refused_with_its_file(text: str) -> None:
    with pytest.raises(BadInput, match=r"standard input, document 1 \(line 1\): is not YAML: "):
        read_text(text)


def test_a_character_in_two_escapes_is_one_character() -> None:
    body = json.loads(STEADY.workload)
    body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"] = {"annotations": {"note": "🦀"}}

    (manifest,) = read_text(json.dumps(body)).workloads

    assert manifest.workload.groups[0].template.annotations == {"note": "🦀"}


@pytest.mark.parametrize(
    "count", [b'"RUNNING"', b'"1e99"', b"1.5", DEEP_LIST], ids=["text", "too much", "half", "deep"]
)
def test_an_answer_of_gke_that_makes_no_sense_is_unavailable(count: bytes) -> None:
    body = b'{"name": "a", "config": {"accelerators": [{"acceleratorCount": ' + count + b"}]}}"
    pools = open_pools(CannedHttp(lambda _method, _url: Canned(body)))

    with pytest.raises(Unavailable, match="the answer cannot be read"):
        pools.get(CLUSTER, "a")


@pytest.mark.parametrize(
    "text",
    [
        *("a: !!int x", 'a: !!int ""', "a: !!bool x", "a: !!timestamp x", "a: !!binary aGk=", "a: !!set {b}"),
        *("a: .nan", "a: 1e400", "~: a"),
    ],
)
def test_a_value_that_json_does_not_have_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(BadInput, match=r"^standard input, document 1 \(line 1\): is not YAML: .*(line 1|line 2)"):
        read_text(text)


def test_a_date_and_a_number_as_a_key_are_texts_as_for_kubectl() -> None:
    body = STEADY.workload.decode().replace('"labels": {', '"labels": {7: 2026-11-22, yes: "a", ')

    assert read_yaml(body)[0]["metadata"]["labels"] | {"team": ""} == {"7": "2026-11-22", "true": "a", "team": ""}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: List\nitems: 5", "items: is not valid (got '5'); valid: a list of objects"),
        ("kind: Job", "document 1 (line 1): apiVersion: is missing; valid: "),
        ("kind: Job\napiVersion: [batch/v1]", "apiVersion: is not valid (got '[\"batch/v1\"]'); valid: a text"),
        (
            "kind: Job\napiVersion: batch/v1\nmetadata: [a]",
            "metadata: is not valid (got '[\"a\"]'); valid: an object",
        ),
        ("kind: Job\napiVersion: batch/v1\nmetadata: {name: A}", "metadata.name: is not valid (got 'A'); valid: "),
        ("kind: Job\napiVersion: batch/v1\nmetadata: {name: a, namespace: 5}", "metadata.namespace: is not valid"),
    ],
)
def test_an_object_of_the_wrong_form_is_named_by_its_field(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        read_text(text)


def test_a_list_in_a_list_is_read() -> None:
    nested = f'{{"kind": "List", "items": [{{"kind": "List", "items": [{STEADY.workload.decode()}]}}]}}'

    assert [each.workload.name for each in read_text(nested).workloads] == [STEADY.name]


def test_a_long_or_odd_kind_reaches_the_terminal_as_a_short_line() -> None:
    text = STEADY.workload.decode() + f'\n---\n{{"apiVersion": "v1", "kind": "\\u001b[31m{"K" * 9000}"}}'

    (other,) = read_text(text).others
    assert len(other) < 100
    assert other.isprintable()


def test_the_demo_refuses_a_file_whose_aliases_fill_the_memory(tmp_path: Path) -> None:
    bomb = "a: &l0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]\n" for level in range(1, 12)
    )
    (tmp_path / "bomb.yaml").write_text(bomb)

    with pytest.raises(BadManifest, match=r"bomb\.yaml: is not YAML: its aliases repeat"):
        load([str(tmp_path / "bomb.yaml")])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("GRACE_SECONDS", "9" * 400, "; valid: a number from 1 to 2147483647"),
        ("NAMESPACE_MODES", '{"a": "no-create", "a": "active"}', "the key 'a' comes 2 times"),
        ("NAMESPACE_MODES", '{"Team_A": "no-create"}', "'Team_A' is not a namespace; valid: "),
        ("GKE_ENDPOINT", "container.googleapis.com", "; valid: https://HOST"),
        ("DEAD_LETTER_TOPIC", "dead", "; valid: projects/PROJECT/topics/NAME"),
        ("NODE_ADDITIONAL_NETWORKS", ":", "':' is not a pair"),
    ],
)
def test_a_setting_that_can_never_be_meant_is_refused(name: str, text: str, message: str) -> None:
    clusters = json.dumps({CLUSTER: {"endpoint": "https://c"}})

    with pytest.raises(Misconfigured, match=re.escape(message)):
        read_settings({"TPU_PROVISIONER_CLUSTERS": clusters, f"TPU_PROVISIONER_{name}": text})


def test_two_clusters_with_one_endpoint_are_refused() -> None:
    two = {CLUSTER: {"endpoint": "https://c"}, f"{CLUSTER}-2": {"endpoint": "https://c/"}}

    with pytest.raises(Misconfigured, match="2 clusters have the endpoint 'https://c'; valid: one each"):
        read_settings({"TPU_PROVISIONER_CLUSTERS": json.dumps(two)})


def test_a_problem_is_one_line_of_bounded_length() -> None:
    clusters = json.dumps({"x" * 70_000: {"endpoint": "https://c"}, "a\nb": {"endpoint": "https://d"}})

    with pytest.raises(Misconfigured) as refused:
        read_settings({"TPU_PROVISIONER_CLUSTERS": clusters})

    assert [each for each in refused.value.problems if len(each) > 600 or not each.isprintable()] == []


def test_control_characters_of_a_group_do_not_reach_the_terminal() -> None:
    body = json.loads(STEADY.workload)
    body["spec"]["replicatedJobs"][0]["name"] = "a\u202e\u001b[31m\nb"
    found, shown = read_text(json.dumps(body)), io.StringIO()

    print_plan(Console(file=shown, width=200), plan(found.workloads, CLUSTER, settings()), found.others)

    assert "a\\u202e\\x1b[31m\\nb" in shown.getvalue()
    assert shown.getvalue().replace("\n", "").isprintable()
