"""Messages carry no authority.

The tests deliver those of a finished run three times more in any order, and nothing happens.
"""

from __future__ import annotations

import base64
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from rich.console import Console

from demo.loop.demo_manifests import load
from demo.loop.running import Run, RunOptions
from demo.loop.verification import Verifier
from demo.loop.views import PlainView
from demo.stack.layout import OPERATIONS_TOPIC, TOPIC
from demo.tests.local_commands import TEST_SECONDS_MAX

if TYPE_CHECKING:
    from demo.stack.stack import Stack

MANIFEST = Path(__file__).resolve().parents[2] / "examples" / "v6e-two-slices.yaml"
TIMES = 3
ANSWER_SECONDS_MAX = 200
Json = dict[str, Any]


def list_published(stack: Stack) -> list[Json]:
    """Return every message of both topics, also of other tests in the session of the stack."""
    found: list[Json] = []
    for topic in (TOPIC, OPERATIONS_TOPIC):
        answer = httpx.get(f"{stack.addresses.pubsub_rest}/admin/messages", params={"topic": topic})
        found += [each | {"topic": topic} for each in answer.raise_for_status().json()["messages"]]
    return found


def publish_again(stack: Stack, seen: list[Json], chance: random.Random) -> int:
    """Publish messages three times each, shuffled; return how many that were."""
    with httpx.Client(base_url=stack.addresses.pubsub_rest) as client:
        again = [
            (each["topic"], {"data": each.get("data", ""), "attributes": each["attributes"]})
            for each in seen
            for _ in range(TIMES)
        ]
        chance.shuffle(again)
        for topic, each in again:
            assert base64.b64decode(each["data"])
            client.post(f"/v1/{topic}:publish", json={"messages": [each]}).raise_for_status()
    return len(again)


def wait_for_acknowledgement(stack: Stack, expected: int) -> None:
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while count_acknowledged(stack) < expected:
        assert time.monotonic() < deadline, f"{count_acknowledged(stack)} of {expected} messages"
        time.sleep(0.1)


def count_acknowledged(stack: Stack) -> int:
    with Verifier(stack.addresses) as verifier:
        return verifier.count_facts()["messages"]


def changes(stack: Stack) -> list[tuple[str, str]]:
    """Return every create and delete that succeeded so far."""
    calls = httpx.get(f"{stack.addresses.gke_rest}/admin/calls").raise_for_status().json()["calls"]
    wanted = ("CreateNodePool", "DeleteNodePool")
    return [(each["method"], each["pool"]) for each in calls if each["method"] in wanted and each["code"] == "OK"]


@pytest.mark.slow
@pytest.mark.timeout(TEST_SECONDS_MAX)
def test_a_finished_run_replayed_three_times_shuffled_changes_nothing(stack: Stack) -> None:
    earlier = {each["messageId"] for each in list_published(stack)}
    outcome = Run(stack, PlainView(Console(quiet=True)), RunOptions()).perform(load([str(MANIFEST)]))
    assert outcome.verified, outcome.problems
    before, acknowledged = changes(stack), count_acknowledged(stack)
    mine = [each for each in list_published(stack) if each["messageId"] not in earlier]
    count = publish_again(stack, mine, random.Random(7))
    assert count >= TIMES * 9, "two demands, an end, and two entries of each operation"
    wait_for_acknowledgement(stack, acknowledged + count)
    assert changes(stack) == before
    with Verifier(stack.addresses) as verifier:
        assert verifier.verify(outcome.timeline.workloads) == []
