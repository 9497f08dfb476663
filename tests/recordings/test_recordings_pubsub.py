"""The stand-in of Pub/Sub answers recorded requests as Pub/Sub did."""

from typing import Any

import httpx
import pytest

from standins.google.tests.fakegke_worlds import serving_google
from tests.recordings.answer_comparison import compare, mask
from tests.recordings.recorded_traffic import PUBSUB, select

pytestmark = pytest.mark.recordings
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
LATE = "a subscription is seen by others a moment after the answer to its creation"
"""So says Pub/Sub; the stand-in shows it at once, because nothing of ours looks so early."""


def strip(value: Any) -> Any:
    """Return a JSON value without the features that the stand-in does not serve."""
    if isinstance(value, list):
        return [strip(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {key: strip(below) for key, below in value.items() if key not in NOT_SERVED}
    if isinstance(kept.get("updateMask"), str):
        kept["updateMask"] = ",".join(path for path in kept["updateMask"].split(",") if path not in NOT_SERVED)
    return kept


def test_each_recorded_request_is_answered_as_pubsub_answered_it() -> None:
    recorded = select(PUBSUB, "topics", "subscriptions")
    exports = {(each.file, each.path) for each in recorded if any(feature in each.answer for feature in EXPORTS)}
    exchanges = [each for each in recorded if (each.file, each.path) not in exports]
    differences, changed, created = dict[str, str](), set[str](), ""
    with serving_google(pubsub=True) as google, httpx.Client(base_url=google.ports["rest"]) as http:
        for each in exchanges:
            body = strip(each.body)
            answer = http.request(each.method, f"/{each.version}/{each.path}", params=each.query, json=body)
            if (each.method, each.kind, each.status, each.path) == ("GET", "subscriptions", 404, created):
                continue  # LATE
            created = each.path if each.method == "PUT" else ""
            if answer.headers["content-type"].startswith("text/html"):
                changed.add(each.path)  # a method that is not served
            elif each.path not in changed:
                ours = {"HTTP status": answer.status_code, **answer.json()}
                found = compare({"HTTP status": each.status, **strip(each.answer)}, ours, ())
                differences |= {mask(text): each.name for text in found}

    assert differences == {}
    assert len(exchanges) >= 60
