"""Rules for the metadata of every kind: names, labels, what a client may not set.

Sources: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ and
https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
"""

import random
import re
from collections.abc import Iterator
from typing import Any

from standins.cluster.admission.refusals import Problem, refuse
from standins.cluster.store.errors import bad_request, invalid
from standins.cluster.store.kinds import Kind

Json = dict[str, Any]

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
_MAX_GENERATED_PREFIX = 58
_MAX_NAME = 253
_MAX_LABEL = 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    f"start and end with an alphanumeric character, and be no more than {_MAX_LABEL} characters"
)
_KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)

# What the server writes, whatever a client sends.
_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
    "name",
    "generateName",
)


def without_nulls(value: Any) -> Any:
    """Return a JSON value without null members, as after decoding into typed structs."""
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(member) for member in value]
    return value


def settle_name(kind: Kind, metadata: Json, source: random.Random) -> str:
    """Set the name from `generateName` when there is none, and return it.

    Raises ApiError: 422, when there is no name at all or one that is not valid.
    """
    prefix = metadata.get("generateName")
    if not metadata.get("name") and prefix:
        suffix = "".join(source.choices(SUFFIX_ALPHABET, k=SUFFIX_LENGTH))
        metadata["name"] = f"{prefix[:_MAX_GENERATED_PREFIX]}{suffix}"
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise invalid(kind, "", "metadata.name", "Required value: name or generateName is required")
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise invalid(kind, name, "metadata.name", f'Invalid value: "{name}": {_NAME_RULE}')
    return name


def settle_namespace(kind: Kind, metadata: Json, namespace: str) -> None:
    """Set the namespace of the path. Raises ApiError: 400, when the object names another one."""
    own = metadata.pop("namespace", "")
    if not kind.namespaced:
        return
    if own and own != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = namespace


def label_problems(labels: Any, field: str) -> Iterator[Problem]:
    """Yield what is wrong with labels, or with a node selector."""
    if not isinstance(labels, dict):
        yield Problem(field, f"Invalid value: {labels!r}: must be an object of text to text")
        return
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or len(key.rpartition("/")[2]) > _MAX_LABEL:
            yield Problem(field, f'Invalid value: "{key}": {_KEY_RULE}')
        if not isinstance(value, str) or len(value) > _MAX_LABEL or not _LABEL_VALUE.fullmatch(value):
            yield Problem(field, f'Invalid value: "{value}": {_VALUE_RULE}')


def check_metadata(kind: Kind, metadata: Json) -> None:
    """Refuse metadata of the wrong form. Raises ApiError: 422, naming the field."""
    problems = list(label_problems(metadata.get("labels", {}), "metadata.labels"))
    annotations = metadata.get("annotations", {})
    if not isinstance(annotations, dict) or not all(isinstance(value, str) for value in annotations.values()):
        problems.append(Problem("metadata.annotations", "Invalid value: must be an object of text to text"))
    refuse(kind, str(metadata.get("name", "")), problems)


def carry_over(old: Json, new: Json) -> None:
    """Keep the server's own fields of the stored metadata."""
    for field in _SERVER_OWNED:
        if field in old:
            new[field] = old[field]
        else:
            new.pop(field, None)
    new.pop("managedFields", None)
    new.pop("selfLink", None)


def drop_empty(metadata: Json) -> None:
    """Leave out empty maps and lists, as the API server does when it writes metadata."""
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if field in metadata and not metadata[field]:
            del metadata[field]
