"""The store by itself: versions, history, its bounds; selectors and patches as pure functions."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from local.cluster.api.columns import duration
from local.cluster.api.json_patch import apply_json_patch
from local.cluster.api.patches import merge, strategic_merge
from local.cluster.api.protobuf import read_protobuf
from local.cluster.errors import ApiError
from local.cluster.quantities import canonical, milli_units
from local.cluster.store.kinds import BY_PATH, KINDS, NODE, POD
from local.cluster.store.selectors import parse_labels, parse_structured
from local.cluster.store.store import Store

Json = dict[str, Any]

CONFIG_MAP = BY_PATH[("", "v1", "configmaps")]


def body(name: str, namespace: str = "default", **data: str) -> Json:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}, "data": data}


def test_every_write_of_every_kind_has_its_own_version():
    store = Store()
    versions = [store.put(CONFIG_MAP, body("a")).version, store.put(NODE, body("n", "")).version]
    removed = store.remove(store.put(CONFIG_MAP, body("a", x="1")))

    assert [*versions, removed.version] == [2, 3, 5]


def test_objects_come_in_the_order_of_namespace_and_name():
    store = Store()
    for namespace, name in (("b", "a"), ("a", "z"), ("a-b", "m"), ("a", "b")):
        store.put(CONFIG_MAP, body(name, namespace))

    assert [s.key for s in store.objects(CONFIG_MAP)] == [("a", "b"), ("a", "z"), ("a-b", "m"), ("b", "a")]
    assert [s.name for s in store.objects(CONFIG_MAP, "a")] == ["b", "z"]
    assert [s.name for s in store.objects(CONFIG_MAP, after=("a", "z"))] == ["m", "a"]


def test_a_past_state_can_be_listed_as_long_as_history_reaches():
    store = Store()
    store.put(CONFIG_MAP, body("a", x="1"))
    gone = store.put(CONFIG_MAP, body("b"))
    then = store.revision
    store.put(CONFIG_MAP, body("a", x="2"))
    store.remove(gone)
    store.put(CONFIG_MAP, body("c"))

    past = store.objects_at(CONFIG_MAP, then)

    assert [(s.name, s.body()["data"]) for s in past] == [("a", {"x": "1"}), ("b", {})]


def test_history_is_bounded_and_says_so():
    store = Store(history=3)
    first = store.put(CONFIG_MAP, body("a", x="0")).version
    for count in range(5):
        store.put(CONFIG_MAP, body("a", x=str(count + 1)))

    with pytest.raises(ApiError, match="too old resource version") as expired:
        store.changes_since(CONFIG_MAP, first)
    assert (expired.value.code, expired.value.reason) == (410, "Expired")
    assert len(store.changes_since(CONFIG_MAP, store.revision - 3)) == 3


def test_a_busy_kind_does_not_push_a_quiet_one_out_of_its_window():
    store = Store(history=3)
    quiet = store.put(NODE, body("n", "")).version
    for count in range(9):
        store.put(CONFIG_MAP, body("a", x=str(count)))

    assert store.changes_since(NODE, quiet) == []


def test_compaction_forgets_everything_before_now_of_kinds_never_seen_too():
    store = Store()
    version = store.put(CONFIG_MAP, body("a")).version
    store.put(CONFIG_MAP, body("b"))
    store.compact()

    for kind in (CONFIG_MAP, POD):
        with pytest.raises(ApiError):
            store.changes_since(kind, version)
        assert store.changes_since(kind, store.revision) == []


def test_a_body_handed_out_is_the_callers_to_change():
    store = Store()
    stored = store.put(CONFIG_MAP, body("a", x="1"))
    stored.body()["data"]["x"] = "changed"

    assert stored.body()["data"] == {"x": "1"}


def test_every_kind_has_a_path_of_its_own():
    assert len(BY_PATH) == len(KINDS)


def test_structured_selectors_match_like_their_text():
    structured = {
        "matchLabels": {"a": "1"},
        "matchExpressions": [
            {"key": "b", "operator": "NotIn", "values": ["2"]},
            {"key": "c", "operator": "Exists"},
            {"key": "d", "operator": "DoesNotExist"},
        ],
    }
    selector = parse_structured(structured)
    assert selector is not None

    assert selector == parse_labels("a=1,b notin (2),c,!d")
    assert selector.matches({"a": "1", "c": ""})
    assert not selector.matches({"a": "1", "b": "2", "c": ""})
    assert parse_labels("size>3").matches({"size": "4"})
    assert not parse_labels("size<3").matches({"size": "many"})


TARGET: Json = {
    "metadata": {"labels": {"a": "1"}, "finalizers": ["x"]},
    "spec": {
        "containers": [{"name": "c", "image": "1", "env": [{"name": "A", "value": "1"}]}],
        "taints": [{"key": "k"}],
    },
    "status": {"conditions": [{"type": "Ready", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("patch", "path", "result"),
    [
        ({"metadata": {"labels": {"a": None, "b": "2"}}}, "metadata.labels", {"b": "2"}),
        ({"metadata": {"finalizers": ["y"]}}, "metadata.finalizers", ["y", "x"]),
        (
            {"metadata": {"finalizers": ["y"], "$setElementOrder/finalizers": ["x", "y"]}},
            "metadata.finalizers",
            ["x", "y"],
        ),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}, "metadata.finalizers", []),
        (
            {"spec": {"containers": [{"name": "c", "image": "2"}, {"name": "d"}]}},
            "spec.containers",
            [{"name": "c", "image": "2", "env": [{"name": "A", "value": "1"}]}, {"name": "d"}],
        ),
        ({"spec": {"containers": [{"name": "c", "$patch": "delete"}]}}, "spec.containers", []),
        ({"spec": {"containers": [{"$patch": "replace"}, {"name": "e"}]}}, "spec.containers", [{"name": "e"}]),
        ({"spec": {"taints": [{"key": "z"}]}}, "spec.taints", [{"key": "z"}]),
        (
            {"status": {"conditions": [{"type": "Ready", "status": "True"}], "$setElementOrder/conditions": []}},
            "status.conditions",
            [{"type": "Ready", "status": "True"}],
        ),
        ({"metadata": {"$patch": "replace", "name": "n"}}, "metadata", {"name": "n"}),
    ],
)
def test_strategic_merge_knows_which_lists_are_merged(patch: Json, path: str, result: Any):
    before = copy.deepcopy(TARGET)

    found: Any = strategic_merge(TARGET, patch)

    for step in path.split("."):
        found = found[step]
    assert found == result
    assert before == TARGET, "the target itself is left alone"


def test_a_merge_patch_replaces_lists_and_removes_nulls():
    assert merge({"a": [1, 2], "b": {"c": 1, "d": 2}}, {"a": [3], "b": {"c": None}}) == {"a": [3], "b": {"d": 2}}


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3]}),
        ({"op": "add", "path": "/a/0", "value": 0}, {"a": [0, 1, 2]}),
        ({"op": "replace", "path": "/a", "value": []}, {"a": []}),
        ({"op": "remove", "path": "/a/0"}, {"a": [2]}),
        ({"op": "move", "from": "/a", "path": "/b"}, {"b": [1, 2]}),
        ({"op": "copy", "from": "/a/1", "path": "/b"}, {"a": [1, 2], "b": 2}),
    ],
)
def test_json_patch_does_each_operation(operation: Json, result: Json):
    assert apply_json_patch({"a": [1, 2]}, [operation]) == result


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "jump", "path": "/a"},
        {"op": "remove", "path": "/x"},
        {"op": "test", "path": "/a", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"path": "/a"},
    ],
)
def test_json_patch_refuses_what_cannot_be_applied(operation: Json):
    with pytest.raises(ApiError) as refusal:
        apply_json_patch({"a": [1]}, [operation])
    assert refusal.value.code == 422


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        ("1", 1_000),
        (4, 4_000),
        ("500m", 500),
        ("1Ki", 1_024_000),
        ("0.5", 500),
        ("1e3", 1_000_000),
        ("2k", 2_000_000),
    ],
)
def test_quantities_are_read(text: str | int, thousandths: int):
    assert milli_units(text) == thousandths


def test_numbers_become_text_and_nonsense_is_refused():
    assert (canonical(4), canonical(0.5), canonical("1Gi")) == ("4", "500m", "1Gi")
    with pytest.raises(ValueError, match="'lots' is not a quantity"):
        canonical("lots")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5, "5s"), (119, "119s"), (180, "3m"), (190, "3m10s"), (3_600, "60m"), (4 * 3_600, "4h"), (200_000, "2d7h")],
)
def test_ages_are_written_as_kubectl_does(seconds: float, text: str):
    assert duration(seconds) == text


def test_only_simple_kinds_are_read_from_protobuf():
    def field(number: int, value: bytes) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value

    def envelope(kind: bytes) -> bytes:
        label = field(11, field(1, b"team") + field(2, b"x"))
        raw = field(1, field(1, b"me") + label)
        return b"k8s\x00" + field(1, field(1, b"v1") + field(2, kind)) + field(2, raw)

    found = read_protobuf(envelope(b"Namespace"))
    assert found == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "me", "labels": {"team": "x"}}}
    with pytest.raises(ApiError) as refusal:
        read_protobuf(envelope(b"ConfigMap"))
    assert refusal.value.code == 415
    with pytest.raises(ApiError, match="not Kubernetes protobuf"):
        read_protobuf(b"k8s\x00\xff")
