"""What a topic and a subscription were asked for, as values, and their documented ranges.

The state that follows from them is kept elsewhere (`topic`, `subscription`). Durations are seconds.
"""

from dataclasses import dataclass, field

from standins.google.pubsub.model.names import check_name, invalid, parse_filter

DAY_SECONDS = 86_400.0
MIN_RETENTION_SECONDS = 600.0
MAX_RETENTION_SECONDS = 31 * DAY_SECONDS
DEFAULT_RETENTION_SECONDS = 7 * DAY_SECONDS
DEFAULT_EXPIRATION_SECONDS = 31 * DAY_SECONDS
MIN_ACK_DEADLINE_SECONDS = 10
MAX_ACK_DEADLINE_SECONDS = 600
MAX_BACKOFF_SECONDS = 600.0
DEFAULT_MINIMUM_BACKOFF_SECONDS = 10.0
MIN_DELIVERY_ATTEMPTS = 5
MAX_DELIVERY_ATTEMPTS = 100


@dataclass(frozen=True)
class RetryPolicy:
    """Hold the bounds of the exponential back-off between two deliveries of one message."""

    minimum_backoff_seconds: float = DEFAULT_MINIMUM_BACKOFF_SECONDS
    maximum_backoff_seconds: float = MAX_BACKOFF_SECONDS

    def check(self) -> None:
        """Accept bounds of 0 to 600 s, the lower not above the upper."""
        for name, value in (
            ("minimum_backoff", self.minimum_backoff_seconds),
            ("maximum_backoff", self.maximum_backoff_seconds),
        ):
            if not 0 <= value <= MAX_BACKOFF_SECONDS:
                raise invalid(f"retry_policy.{name}", value, f"0 to {MAX_BACKOFF_SECONDS:.0f} seconds")
        if self.minimum_backoff_seconds > self.maximum_backoff_seconds:
            raise invalid("retry_policy.minimum_backoff", self.minimum_backoff_seconds, "at most maximum_backoff")

    def backoff_seconds(self, failures: int) -> float:
        """Return the wait after the n-th failure (1, 2, …) of one message."""
        doubled = self.minimum_backoff_seconds * 2.0 ** min(failures - 1, 60)
        return min(self.maximum_backoff_seconds, doubled)


@dataclass(frozen=True)
class DeadLetterPolicy:
    """Hold where a message goes after how many delivery attempts."""

    topic: str
    max_delivery_attempts: int = MIN_DELIVERY_ATTEMPTS

    def check(self) -> None:
        """Accept 5 to 100 attempts and a well-formed topic name."""
        check_name(self.topic, "topics", field="dead_letter_policy.dead_letter_topic")
        if not MIN_DELIVERY_ATTEMPTS <= self.max_delivery_attempts <= MAX_DELIVERY_ATTEMPTS:
            raise invalid(
                "dead_letter_policy.max_delivery_attempts",
                self.max_delivery_attempts,
                f"{MIN_DELIVERY_ATTEMPTS} to {MAX_DELIVERY_ATTEMPTS}",
            )


@dataclass(frozen=True)
class PushTerms:
    """Hold where and in what form messages are pushed."""

    endpoint: str
    oidc_email: str = ""
    oidc_audience: str = ""

    def check(self) -> None:
        """Accept an http or https endpoint."""
        if not self.endpoint.startswith(("http://", "https://")):
            raise invalid("push_config.push_endpoint", self.endpoint, "a URL that starts with https:// or http://")


@dataclass(frozen=True)
class TopicTerms:
    """Hold what a topic was asked for; `description` is the skin's own resource, kept untouched."""

    retention_seconds: float | None = None
    description: object = None

    def check(self) -> None:
        """Accept a retention of 10 minutes to 31 days, or none."""
        if self.retention_seconds is not None:
            _check_retention("message_retention_duration", self.retention_seconds)


@dataclass(frozen=True)
class SubscriptionTerms:
    """Hold what a subscription was asked for.

    `description` is the skin's own resource, kept untouched.
    """

    topic: str
    ack_deadline_seconds: int = MIN_ACK_DEADLINE_SECONDS
    filter_text: str = ""
    retain_acked: bool = False
    retention_seconds: float = DEFAULT_RETENTION_SECONDS
    expiration_seconds: float | None = DEFAULT_EXPIRATION_SECONDS
    retry: RetryPolicy | None = None
    dead_letter: DeadLetterPolicy | None = None
    push: PushTerms | None = None
    description: object = field(default=None, compare=False)

    def check(self) -> None:
        """Accept the documented ranges of every field.

        Raise INVALID_ARGUMENT for the first that is outside.
        """
        check_name(self.topic, "topics", field="topic")
        if not MIN_ACK_DEADLINE_SECONDS <= self.ack_deadline_seconds <= MAX_ACK_DEADLINE_SECONDS:
            raise invalid(
                "ack_deadline_seconds",
                self.ack_deadline_seconds,
                f"{MIN_ACK_DEADLINE_SECONDS} to {MAX_ACK_DEADLINE_SECONDS} seconds",
            )
        parse_filter(self.filter_text)
        _check_retention("message_retention_duration", self.retention_seconds)
        self._check_expiration()
        for policy in (self.retry, self.dead_letter, self.push):
            if policy is not None:
                policy.check()

    def _check_expiration(self) -> None:
        if self.expiration_seconds is None:
            return
        lowest = max(DAY_SECONDS, self.retention_seconds)
        if self.expiration_seconds < lowest:
            raise invalid(
                "expiration_policy.ttl",
                self.expiration_seconds,
                f"at least {lowest:.0f} seconds (one day, and not below the message retention), or none",
            )


def _check_retention(name: str, seconds: float) -> None:
    if not MIN_RETENTION_SECONDS <= seconds <= MAX_RETENTION_SECONDS:
        raise invalid(
            name,
            seconds,
            f"{MIN_RETENTION_SECONDS:.0f} to {MAX_RETENTION_SECONDS:.0f} seconds (10 minutes to 31 days)",
        )
