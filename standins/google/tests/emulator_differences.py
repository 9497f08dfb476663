"""Where Google's emulator differs from the documented service: scenario → what it does instead, and
a sentence.

The conformance run asserts every row on the emulator, so a row that no longer holds fails there.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """What the emulator was seen to do, in the scenario's own terms."""

    observed: object
    sentence: str


UNFILTERED = ["bare", "demand", "over", "red"]
NEVER_FILTERS = "Stores the filter, returns it, and delivers everything."

# Observed on emulator 0.8.20 (Google Cloud SDK 528).
DIFFERENCES: dict[str, Difference] = {
    "a_filter_lets_through_what_matches": Difference(UNFILTERED, NEVER_FILTERS),
    "a_negated_filter_lets_through_the_rest": Difference(UNFILTERED, NEVER_FILTERS),
    "a_filter_outside_the_grammar_is_refused": Difference(
        ["OK", "OK", "OK"], "Accepts any text as a filter, even a longer one than 256 bytes."
    ),
    "messages_beyond_the_limits_are_refused": Difference(
        ("INVALID_ARGUMENT", "OK", "OK", "OK", "OK"),
        "Refuses an empty message and nothing else: long values, 101 attributes, reserved and long keys all pass.",
    ),
    "a_dead_letter_is_forwarded_without_another_pull": Difference(
        [], "Forwards a dead letter of a pull subscription only when somebody pulls again."
    ),
    "a_retry_policy_delays_the_redelivery": Difference(
        False,  # what the scenario saw
        "Redelivers a nacked message to a pull at once, whatever the retry policy.",
    ),
    "a_push_states_the_attempt_under_a_dead_letter_policy": Difference(
        ["absent", "absent", "absent"], "Leaves the delivery attempt out of pushes."
    ),
    "a_push_is_signed_when_the_config_asks_for_it": Difference(
        "absent", "Sends no token, whatever the push config asks for."
    ),
    "only_the_documented_statuses_acknowledge": Difference(
        {200: "ack", 201: "ack", 202: "nack", 203: "ack", 204: "ack", 301: "nack", 404: "nack", 500: "nack"},
        "Takes 202 for a nack and 203 for an ack.",
    ),
    "a_subscription_pushes_more_than_two_at_a_time": Difference(
        False,  # what the scenario saw
        "Has at most two pushes of a subscription under way.",
    ),
}
