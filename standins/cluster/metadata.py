"""Rules for the metadata of every kind: names, labels, what a client may not set.

Sources: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ and
https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
"""

import random
import re
from collections.abc import Iterator
from typing import Any

from standins.cluster.kinds import Json, Kind
from standins.cluster.refusals import Problem, bad_request, invalid, refuse

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_PREFIX_MAX = 58
_NAME_MAX, _LABEL_MAX = 253, 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character"
)
_LABEL_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character, and be no more than {_LABEL_MAX} characters"
)
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
"""What the server writes, whatever a client sends."""


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
        suffix = "".join(source.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))
        metadata["name"] = f"{prefix[:_PREFIX_MAX]}{suffix}"
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise invalid(kind, "", ("metadata.name", "Required value: name or generateName is required"))
    if not _NAME.fullmatch(name) or len(name) > _NAME_MAX:
        raise invalid(kind, name, ("metadata.name", f'Invalid value: "{name}": {_NAME_RULE}'))
    return name


def settle_namespace(kind: Kind, metadata: Json, namespace: str) -> None:
    """Set the namespace of the path. Raises ApiError: 400, when the object names another one."""
    own = metadata.pop("namespace", "")
    if not kind.namespaced:
        return
    if own and own != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = namespace


def list_label_problems(labels: Any, field: str) -> Iterator[Problem]:
    """Yield what is wrong with labels, or with a node selector."""
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or len(key.rpartition("/")[2]) > _LABEL_MAX:
            yield field, f'Invalid value: "{key}": the name {_LABEL_RULE}'
        if not isinstance(value, str) or len(value) > _LABEL_MAX or not _LABEL_VALUE.fullmatch(value):
            yield field, f'Invalid value: "{value}": a label {_LABEL_RULE}'


def check_metadata(kind: Kind, metadata: Json) -> None:
    """Refuse metadata of the wrong form. Raises ApiError: 422, naming the field."""
    name = str(metadata.get("name", ""))
    for field in ("labels", "annotations"):
        texts = metadata.get(field, {})
        if not isinstance(texts, dict) or not all(isinstance(value, str) for value in texts.values()):
            raise invalid(kind, name, (f"metadata.{field}", "Invalid value: must be an object of text to text"))
    refuse(kind, name, list_label_problems(metadata.get("labels", {}), "metadata.labels"))


def carry_over(old: Json, new: Json) -> None:
    """Keep the server's own fields of the stored metadata."""
    for field in _SERVER_OWNED:
        if field in old:
            new[field] = old[field]
        else:
            new.pop(field, None)
    new.pop("managedFields", None)


def drop_empty(metadata: Json) -> None:
    """Leave out empty maps and lists, as the API server does when it writes metadata."""
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if field in metadata and not metadata[field]:
            del metadata[field]
