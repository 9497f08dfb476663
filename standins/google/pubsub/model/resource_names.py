"""Resource names: `projects/P/topics/T`, `projects/P/subscriptions/S`, `projects/P/snapshots/N`.

Only their grammar; whether a resource exists is the broker's business.
"""

import re

from standins.google.pubsub.model.errors import invalid

DELETED_TOPIC = "_deleted-topic_"

_PROJECT = r"[a-z0-9.:-]{1,100}"
_IDENTIFIER = re.compile(r"(?!goog)[A-Za-z][A-Za-z0-9\-._~+%]{2,254}")
_NAME = re.compile(rf"projects/({_PROJECT})/(topics|subscriptions|snapshots)/([^/]+)")
_RULE = (
    "projects/PROJECT/{kind}/ID with an ID of 3 to 255 characters, starting with a letter, of letters, digits and"
    " - . _ ~ + %, and not starting with 'goog'"
)


def check_name(name: str, kind: str, *, field: str = "name") -> None:
    """Accept a resource name of the wanted kind (`topics`, `subscriptions`, `snapshots`).

    Raises ApiError: INVALID_ARGUMENT for a name outside the documented rules, see
    https://cloud.google.com/pubsub/docs/pubsub-basics#resource_names
    """
    match = _NAME.fullmatch(name)
    if match is None or match[2] != kind or _IDENTIFIER.fullmatch(match[3]) is None:
        raise invalid(field, name, _RULE.format(kind=kind))


def project_of(name: str) -> str:
    """Return the project of a resource name."""
    return name.split("/")[1]


def identifier_of(name: str) -> str:
    """Return the last part of a resource name."""
    return name.rsplit("/", 1)[-1]
