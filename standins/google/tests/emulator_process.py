"""Google's emulator of Pub/Sub: how it is found and run, and where it differs."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from standins.kit.addresses import answers, draw_ports
from standins.kit.processes import Command, running

BELOW_SDK = "platform/pubsub-emulator/bin/cloud-pubsub-emulator"
PACKAGED_SDK = Path("/usr/lib/google-cloud-sdk")
REMEDY = (
    "`gcloud components install pubsub-emulator` (or apt-get install google-cloud-cli-pubsub-emulator), and any"
    " Java runtime 11 or newer"
)


def find_emulator() -> Path | None:
    """Return the installed emulator's launcher, if it and the java that it starts are there."""
    if shutil.which("java") is None:
        return None
    gcloud = shutil.which("gcloud")
    parents = [*list(Path(gcloud).resolve().parents)[1:3], PACKAGED_SDK] if gcloud else [PACKAGED_SDK]
    return next((path for parent in parents if (path := parent / BELOW_SDK).exists()), None)


@contextlib.contextmanager
def running_emulator(folder: Path) -> Iterator[dict[str, str]]:
    """Run Google's emulator and yield its addresses (gRPC and REST share a port)."""
    launcher, port = find_emulator(), draw_ports(1)[0]
    assert launcher is not None, f"Google's Pub/Sub emulator is not there; it needs {REMEDY}"
    url = f"http://127.0.0.1:{port}"
    arguments = (str(launcher), "--host=127.0.0.1", f"--port={port}")
    with running(Command(name="emulator", arguments=arguments, folder=folder), folder, lambda: answers(url)):
        yield {"grpc": f"127.0.0.1:{port}", "rest": url}


UNFILTERED = ["bare", "demand", "over", "red"]
NEVER_FILTERS = "Stores the filter, returns it, and delivers everything."

# What it was seen to do, in the scenario's own terms: emulator 0.8.20 (Google Cloud SDK 528).
DIFFERENCES: dict[str, tuple[object, str]] = {
    "a_filter_lets_through_what_matches": (UNFILTERED, NEVER_FILTERS),
    "a_negated_filter_lets_through_the_rest": (UNFILTERED, NEVER_FILTERS),
    "a_filter_outside_the_grammar_is_refused": (
        ["OK", "OK", "OK"],
        "Accepts any text as a filter, even a longer one than 256 bytes.",
    ),
    "messages_beyond_the_limits_are_refused": (
        ("INVALID_ARGUMENT", "OK", "OK", "OK", "OK"),
        "Refuses an empty message and nothing else: long values, 101 attributes, reserved and long keys all pass.",
    ),
    "a_dead_letter_is_forwarded_without_another_pull": (
        [],
        "Forwards a dead letter of a pull subscription only when somebody pulls again.",
    ),
    "a_retry_policy_delays_the_redelivery": (
        False,  # what the scenario saw
        "Redelivers a nacked message to a pull at once, whatever the retry policy.",
    ),
    "a_push_states_the_attempt_under_a_dead_letter_policy": (
        ["absent", "absent", "absent"],
        "Leaves the delivery attempt out of pushes.",
    ),
    "only_the_documented_statuses_acknowledge": (
        {200: "ack", 201: "ack", 202: "nack", 203: "ack", 204: "ack", 301: "nack", 404: "nack", 500: "nack"},
        "Takes 202 for a nack and 203 for an ack.",
    ),
    "a_subscription_pushes_more_than_two_at_a_time": (
        False,  # what the scenario saw
        "Has at most two pushes of a subscription under way.",
    ),
}
