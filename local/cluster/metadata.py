"""Rules that hold for the metadata of every kind: names, labels, what a client may not set.

Sources: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ and
https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from local.cluster.errors import bad_request, invalid

if TYPE_CHECKING:
    import random

    from local.cluster.store.kinds import Kind

Json = dict[str, Any]

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
_MAX_GENERATED_PREFIX = 58
_MAX_NAME = 253
_MAX_LABEL = 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PATH_SEGMENT_NAME_KINDS = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?",
)
LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
LABEL_KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

# What the server writes, whatever a client sends.
SERVER_OWNED = (
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
    """Return a JSON value without the null members of its objects, as decoding into typed structs drops them."""
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(member) for member in value]
    return value


def random_suffix(source: random.Random) -> str:
    """Return five characters as the API server appends to `generateName`."""
    return "".join(source.choices(SUFFIX_ALPHABET, k=SUFFIX_LENGTH))


def settle_name(kind: Kind, metadata: Json, source: random.Random) -> str:
    """Set the name from `generateName` when there is none, and return it.

    Raises:
        ApiError: 422, when there is no name at all or one that is not valid.
    """
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = f"{metadata['generateName'][:_MAX_GENERATED_PREFIX]}{random_suffix(source)}"
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise invalid(kind, "", "metadata.name", "Required value: name or generateName is required")
    if metadata.get("generateName"):
        # Of a prefix the last hyphen counts as what will follow it; nothing else may stand at the end.
        _check_name(kind, name, "metadata.generateName", re.sub(r"(?<=.)-$", "a", metadata["generateName"]))
    _check_name(kind, name, "metadata.name", name)
    return name


def _check_name(kind: Kind, name: str, field: str, value: str) -> None:
    if kind.kind not in _PATH_SEGMENT_NAME_KINDS and (not _NAME.fullmatch(value) or len(value) > _MAX_NAME):
        raise invalid(
            kind,
            name,
            field,
            f'Invalid value: "{value}": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
            "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
            "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        )


def settle_namespace(kind: Kind, metadata: Json, namespace: str) -> None:
    """Set the namespace of the path.

    Raises:
        ApiError: 400, when the object names another one, or has one although its kind has none.
    """
    own = metadata.get("namespace", "")
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if own and own != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = namespace


def check_labels(kind: Kind, name: str, labels: Any, field: str) -> None:
    """Refuse labels (or a node selector) that Kubernetes would not store.

    Raises:
        ApiError: 422, naming the label.
    """
    if not isinstance(labels, dict):
        raise invalid(kind, name, field, f"Invalid value: {labels!r}: must be an object of text to text")
    for key, value in labels.items():
        if not LABEL_KEY.fullmatch(key) or len(key.rpartition("/")[2]) > _MAX_LABEL:
            raise invalid(kind, name, field, f'Invalid value: "{key}": {LABEL_KEY_RULE}')
        if not isinstance(value, str) or len(value) > _MAX_LABEL or not LABEL_VALUE.fullmatch(value):
            raise invalid(
                kind,
                name,
                field,
                f'Invalid value: "{value}": {LABEL_VALUE_RULE}',
            )


def check_metadata(kind: Kind, metadata: Json) -> None:
    """Refuse metadata of the wrong form.

    Raises:
        ApiError: 422, naming the field.
    """
    name = str(metadata.get("name", ""))
    check_labels(kind, name, metadata.get("labels", {}), "metadata.labels")
    annotations = metadata.get("annotations", {})
    if not isinstance(annotations, dict) or not all(isinstance(value, str) for value in annotations.values()):
        raise invalid(kind, name, "metadata.annotations", "Invalid value: must be an object of text to text")


def carry_over(old: Json, new: Json) -> None:
    """Keep what belongs to the server from the stored metadata."""
    for field in SERVER_OWNED:
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
