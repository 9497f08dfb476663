"""The store by itself: versions, history, its bounds; selectors and patches as pure functions."""

import copy
from typing import Any

import pytest

from standins.cluster.api.patches import strategic_merge
from standins.cluster.objects.quantities import milli_units
from standins.cluster.store.errors import ApiError
from standins.cluster.store.kinds import CONFIG_MAP, NODE, POD
from standins.cluster.store.object_store import Store
from standins.cluster.store.selectors import parse_labels, parse_structured

Json = dict[str, Any]


def body(name: str, namespace: str = "default", **data: str) -> Json:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}, "data": data}


def test_every_write_of_every_kind_has_its_own_version() -> None:
    store = Store()
    versions = [store.put(CONFIG_MAP, body("a")).version, store.put(NODE, body("n", "")).version]
    removed = store.remove(store.put(CONFIG_MAP, body("a", x="1")))

    assert [*versions, removed.version] == [2, 3, 5]


def test_objects_come_in_the_order_of_namespace_and_name() -> None:
    store = Store()
    for namespace, name in (("b", "a"), ("a", "z"), ("a-b", "m"), ("a", "b")):
        store.put(CONFIG_MAP, body(name, namespace))

    assert [s.key for s in store.objects(CONFIG_MAP)] == [("a", "b"), ("a", "z"), ("a-b", "m"), ("b", "a")]
    assert [s.name for s in store.objects(CONFIG_MAP, "a")] == ["b", "z"]


def test_a_past_state_can_be_listed_as_long_as_history_reaches() -> None:
    store = Store()
    store.put(CONFIG_MAP, body("a", x="1"))
    gone = store.put(CONFIG_MAP, body("b"))
    then = store.revision
    store.put(CONFIG_MAP, body("a", x="2"))
    store.remove(gone)
    store.put(CONFIG_MAP, body("c"))

    past = store.objects_at(CONFIG_MAP, then)

    assert [(s.name, s.body()["data"]) for s in past] == [("a", {"x": "1"}), ("b", {})]


def test_a_busy_kind_does_not_push_a_quiet_one_out_of_its_window() -> None:
    store = Store(history=3)
    quiet = store.put(NODE, body("n", "")).version
    for count in range(9):
        store.put(CONFIG_MAP, body("a", x=str(count)))

    assert store.changes_since(NODE, quiet) == []


def test_compaction_forgets_everything_before_now_of_kinds_never_seen_too() -> None:
    store = Store()
    version = store.put(CONFIG_MAP, body("a")).version
    store.put(CONFIG_MAP, body("b"))
    store.compact()

    for kind in (CONFIG_MAP, POD):
        with pytest.raises(ApiError):
            store.changes_since(kind, version)
        assert store.changes_since(kind, store.revision) == []


def test_structured_selectors_match_like_their_text() -> None:
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
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}, "metadata.finalizers", []),
        (
            {"spec": {"containers": [{"name": "c", "image": "2"}, {"name": "d"}]}},
            "spec.containers",
            [{"name": "d"}, {"name": "c", "image": "2", "env": [{"name": "A", "value": "1"}]}],
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
def test_strategic_merge_knows_which_lists_are_merged(patch: Json, path: str, result: Any) -> None:
    before = copy.deepcopy(TARGET)

    found: Any = strategic_merge(TARGET, patch)

    for step in path.split("."):
        found = found[step]
    assert found == result
    assert before == TARGET, "the target itself is left alone"


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
def test_quantities_are_read(text: str | int, thousandths: int) -> None:
    assert milli_units(text) == thousandths
