"""Limits on labels, resource labels, tags, taints and their syntax, for create and update alike.

Sources: the comments of `google.container.v1` (1,024 characters of node labels in a request),
https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ (syntax),
https://cloud.google.com/compute/docs/labeling-resources (resource labels).
"""

import re
from collections.abc import Iterable, Mapping

from standins.google.gke.errors import invalid, invalid_field
from standins.google.gke.model.proto_messages import Message, TaintEffect

NODE_LABEL_BUDGET = 1024
_MOST_RESOURCE_LABELS = 64
_MOST_TAGS = 64
_LONGEST_PREFIX = 253
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_RESOURCE_KEY = re.compile(r"[a-z][-a-z0-9_]{0,62}")
_RESOURCE_VALUE = re.compile(r"[-a-z0-9_]{0,63}")
_TAG = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")


def check_node_labels(labels: Mapping[str, str], written_by_gke: Mapping[str, str]) -> None:
    """Refuse node labels that are malformed, reserved, too many, or contradict what GKE writes."""
    total = sum(len(key) + len(value) for key, value in labels.items())
    if total > NODE_LABEL_BUDGET:
        raise invalid(
            f"Node labels have {total} characters in total; all keys and values together may have at most "
            f"{NODE_LABEL_BUDGET}."
        )
    for key, value in labels.items():
        _check_key("config.labels", key)
        if value and _NAME.fullmatch(value) is None:
            raise invalid_field(
                f"config.labels[{key}]", value, "A value has at most 63 characters: alphanumerics, '-', '_', '.'."
            )
        prefix = key.rpartition("/")[0]
        if prefix in ("k8s.io", "kubernetes.io") or prefix.endswith(".kubernetes.io"):
            raise invalid_field("config.labels", key, "Keys with this prefix are reserved for Kubernetes.")
        if key in written_by_gke and value != written_by_gke[key]:
            raise invalid_field(
                f"config.labels[{key}]",
                value,
                f'GKE writes this label itself, with the value "{written_by_gke[key]}".',
            )


def _check_key(field: str, key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    good_prefix = not slash or (len(prefix) <= _LONGEST_PREFIX and _PREFIX.fullmatch(prefix) is not None)
    if not good_prefix or _NAME.fullmatch(name) is None:
        raise invalid_field(
            field, key, "A key is an optional DNS prefix of at most 253 characters, '/', and a name of at most 63."
        )


def check_resource_labels(labels: Mapping[str, str]) -> None:
    """Refuse billing labels that Compute Engine would refuse."""
    if len(labels) > _MOST_RESOURCE_LABELS:
        raise invalid_field("config.resource_labels", len(labels), f"At most {_MOST_RESOURCE_LABELS} are allowed.")
    for key, value in labels.items():
        if _RESOURCE_KEY.fullmatch(key) is None:
            raise invalid_field("config.resource_labels", key, "Must be a match of regex '[a-z][-a-z0-9_]{0,62}'.")
        if _RESOURCE_VALUE.fullmatch(value) is None:
            raise invalid_field(
                f"config.resource_labels[{key}]", value, "Must be a match of regex '[-a-z0-9_]{0,63}'."
            )


def check_tags(tags: Iterable[str]) -> None:
    """Refuse network tags that Compute Engine would refuse."""
    listed = list(tags)
    if len(listed) > _MOST_TAGS:
        raise invalid_field("config.tags", len(listed), f"At most {_MOST_TAGS} are allowed.")
    for tag in listed:
        if _TAG.fullmatch(tag) is None:
            raise invalid_field("config.tags", tag, "Must be a match of regex '[a-z]([-a-z0-9]{0,61}[a-z0-9])?'.")


def check_taints(taints: Iterable[Message]) -> None:
    """Refuse taints without a valid key or effect, and two with the same key and effect."""
    seen: set[tuple[str, int]] = set()
    for taint in taints:
        _check_key("config.taints.key", taint.key)
        if taint.value and _NAME.fullmatch(taint.value) is None:
            raise invalid_field(f"config.taints[{taint.key}].value", taint.value, "Must be a valid label value.")
        if taint.effect not in (TaintEffect.NO_SCHEDULE, TaintEffect.PREFER_NO_SCHEDULE, TaintEffect.NO_EXECUTE):
            raise invalid_field(
                f"config.taints[{taint.key}].effect",
                taint.effect,
                "Must be one of NO_SCHEDULE (1), PREFER_NO_SCHEDULE (2), NO_EXECUTE (3).",
            )
        if (taint.key, taint.effect) in seen:
            raise invalid_field("config.taints", taint.key, "A key and effect may stand only once.")
        seen.add((taint.key, taint.effect))
