"""What the broker keeps: messages, topics and subscriptions."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from standins.google.errors import ApiError, Code
from standins.google.pubsub.model.names import invalid

MAX_MESSAGE_BYTES = 10_000_000
MAX_REQUEST_BYTES = 10_000_000
MAX_MESSAGES = 1_000
MAX_ATTRIBUTES = 100
MAX_KEY_BYTES = 256
MAX_VALUE_BYTES = 1_024
MAX_ORDERING_KEY_BYTES = 1_024
RESERVED_PREFIX = "goog"
# The official clients carry their tracing context under this reserved prefix, so the service must
# let it pass.
CLIENT_PREFIX = "googclient_"


@dataclass(frozen=True, slots=True)
class Draft:
    """Hold a message as a publisher hands it in."""

    data: bytes = b""
    attributes: Mapping[str, str] = field(default_factory=dict)
    ordering_key: str = ""

    @property
    def size(self) -> int:
        """Return the size in bytes that the limits count: data, attributes and ordering key."""
        text = sum(len(key.encode()) + len(value.encode()) for key, value in self.attributes.items())
        return len(self.data) + text + len(self.ordering_key.encode())


@dataclass(frozen=True, slots=True)
class Message:
    """Hold a published message; `number` is its place in the broker's one sequence."""

    number: int
    message_id: str
    publish_time: float
    data: bytes
    attributes: Mapping[str, str]
    ordering_key: str


def check_drafts(drafts: Sequence[Draft]) -> None:
    """Accept the messages of one publish request, all or none.

    Raises ApiError: INVALID_ARGUMENT for the first limit that is exceeded.
    """
    if not 1 <= len(drafts) <= MAX_MESSAGES:
        raise invalid("messages", f"{len(drafts)} messages", f"1 to {MAX_MESSAGES} messages in a request")
    for index, draft in enumerate(drafts):
        _check_draft(draft, f"messages[{index}]")
    total = sum(draft.size for draft in drafts)
    if total > MAX_REQUEST_BYTES:
        raise invalid("messages", f"{total} bytes", f"at most {MAX_REQUEST_BYTES} bytes in a request")


def _check_draft(draft: Draft, field_name: str) -> None:
    if not draft.data and not draft.attributes:
        raise ApiError(
            Code.INVALID_ARGUMENT,
            f"One or more messages in the publish request is empty (argument={field_name})."
            " Each message must contain either non-empty data, or at least one attribute.",
        )
    if draft.size > MAX_MESSAGE_BYTES:
        raise invalid(f"{field_name}", f"{draft.size} bytes", f"at most {MAX_MESSAGE_BYTES} bytes in a message")
    if len(draft.attributes) > MAX_ATTRIBUTES:
        raise invalid(
            f"{field_name}.attributes",
            f"{len(draft.attributes)} attributes",
            f"at most {MAX_ATTRIBUTES} attributes",
        )
    if len(draft.ordering_key.encode()) > MAX_ORDERING_KEY_BYTES:
        raise invalid(f"{field_name}.ordering_key", draft.ordering_key, f"at most {MAX_ORDERING_KEY_BYTES} bytes")
    for key, value in draft.attributes.items():
        _check_attribute(key, value, f"{field_name}.attributes")


def _check_attribute(key: str, value: str, field_name: str) -> None:
    if not 1 <= len(key.encode()) <= MAX_KEY_BYTES:
        raise invalid(field_name, key, f"keys of 1 to {MAX_KEY_BYTES} bytes")
    if key.startswith(RESERVED_PREFIX) and not key.startswith(CLIENT_PREFIX):
        raise invalid(field_name, key, f"keys that do not start with the reserved '{RESERVED_PREFIX}'")
    if len(value.encode()) > MAX_VALUE_BYTES:
        raise invalid(f"{field_name}[{key!r}]", value, f"values of at most {MAX_VALUE_BYTES} bytes")


class State(enum.Enum):
    """Name where an entry stands."""

    WAITING = "waiting"
    LEASED = "leased"


@dataclass(slots=True)
class Entry:
    """Hold one message's fate in one subscription.

    `failures` counts nacks and expiries, `delivery` how often it was handed out (a part of the ack
    id).
    """

    number: int
    message: Message
    added_at: float
    available_at: float
    state: State = State.WAITING
    failures: int = 0
    delivery: int = 0
    deadline: float = 0.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """Hold what a subscriber is handed.

    The message, its ack id, and which attempt this is (1, 2, …).
    """

    ack_id: str
    message: Message
    attempt: int


@dataclass
class Counters:
    """Count what happened to the messages of one subscription since it was created."""

    delivered: int = 0
    acked: int = 0
    nacked: int = 0
    expired: int = 0
    dead_lettered: int = 0
    dropped: int = 0
