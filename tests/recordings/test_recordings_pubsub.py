"""The stand-in of Pub/Sub answers recorded requests as Pub/Sub did."""

import asyncio
import contextlib
from typing import Any

import httpx
import pytest

from standins.google.server import Google, Settings
from tests.recordings.answer_comparison import compare, gather
from tests.recordings.recorded_traffic import Exchange, judge, read_recordings

pytestmark = pytest.mark.recordings
NOT_FOUND = httpx.codes.NOT_FOUND
KINDS = ("topics", "subscriptions")
NOT_SERVED = (
    "schemaSettings",
    "noWrapper",
    "enableMessageOrdering",
    "enableExactlyOnceDelivery",
    "retainAckedMessages",
)
"""Features that the stand-in refuses by name. They are left out of requests and answers."""
EXPORTS = ("bigqueryConfig", "cloudStorageConfig")
"""The same; their subscriptions are left out, because other terms of them differ too."""
ALLOWED = {"pushConfig.attributes": "Pub/Sub keeps them to itself and answers its own; ours sets none"}
"""Why a field of an answer may differ."""
LATE = "a subscription is seen by others a moment after the answer to its creation"
"""So says Pub/Sub; the stand-in shows it at once, because nothing of ours looks so early."""


async def play_all(exchanges: list[Exchange]) -> list[tuple[str, str]]:
    """Send the requests in their order, and return what differs."""
    differences, changed, made = [], set[str](), ""
    google = Google(Settings(pubsub=True))
    await google.start()
    async with contextlib.AsyncExitStack() as running:
        running.push_async_callback(google.stop)
        http = await running.enter_async_context(httpx.AsyncClient(base_url=google.ports["rest"]))
        for each in exchanges:
            body = strip(each.body)
            answer = await http.request(each.method, f"/{each.version}/{each.path}", params=each.query, json=body)
            if (each.method, each.kind, each.status) == ("GET", "subscriptions", NOT_FOUND) and made == each.path:
                continue  # LATE
            made = each.path if each.method == "PUT" else ""
            if answer.headers["content-type"].startswith("text/html"):
                changed.add(each.path)  # a method that is not served
            if each.path in changed:
                continue
            found = [] if answer.status_code == each.status else [f"status: {each.status}, {answer.status_code}"]
            found += compare(strip(each.answer), answer.json(), ALLOWED)
            differences += [(each.name, f"{each.method} {each.kind}: {text}") for text in found]
    return differences


def strip(value: Any) -> Any:
    """Return a JSON value without the features that the stand-in does not serve."""
    if isinstance(value, dict):
        kept = {key: strip(below) for key, below in value.items() if key not in NOT_SERVED}
        if isinstance(kept.get("updateMask"), str):
            kept["updateMask"] = ",".join(path for path in kept["updateMask"].split(",") if path not in NOT_SERVED)
        return kept
    return [strip(each) for each in value] if isinstance(value, list) else value


def test_each_recorded_request_is_answered_as_pubsub_answered_it() -> None:
    recorded = [each for each in read_recordings() if each.host == "pubsub.googleapis.com" and each.kind in KINDS]
    exports = {(each.file, each.path) for each in recorded if any(feature in each.answer for feature in EXPORTS)}
    exchanges = judge(each for each in recorded if (each.file, each.path) not in exports)

    assert gather(asyncio.run(play_all(exchanges))) == {}
    assert len(exchanges) >= 80
