"""The fields that our Terraform sets come back from Google as they were sent.

A field that Google answers in another form can show a difference in each plan. The provider mends
some of them. The fields are those of the module `provisioner`, by their names in the API.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.infra.terraform_cli import TERRAFORM
from tests.infra.terraform_text import read_configuration
from tests.recordings.answer_comparison import find_differences
from tests.recordings.recorded_traffic import judge, read_recordings

pytestmark = pytest.mark.recordings
KINDS = {
    "google_pubsub_topic": ("pubsub", "topics"),
    "google_pubsub_subscription": ("pubsub", "subscriptions"),
    "google_logging_metric": ("logging", "metrics"),
    "google_logging_project_sink": ("logging", "sinks"),
    "google_monitoring_alert_policy": ("monitoring", "alertPolicies"),
    "google_monitoring_notification_channel": ("monitoring", "notificationChannels"),
    "google_monitoring_custom_service": ("monitoring", "services"),
    "google_monitoring_slo": ("monitoring", "serviceLevelObjectives"),
    "google_monitoring_monitored_project": ("monitoring", "projects"),
    "google_cloud_scheduler_job": ("cloudscheduler", "jobs"),
}
ANSWERED_OTHERWISE = {
    ("google_pubsub_subscription", "ackDeadlineSeconds"): "only where it writes to Cloud Storage; ours pushes",
    ("google_monitoring_monitored_project", "name"): "a number for the id; the provider asks for the id of it",
}
"""Fields of ours that Google answers in another form, and why no plan shows it."""
_PROMQL = "conditions.conditionPrometheusQueryLanguage"
NOT_RECORDED = {
    "google_pubsub_topic": {"kmsKeyName"},
    "google_logging_project_sink": {"description", "uniqueWriterIdentity"},
    "google_monitoring_alert_policy": {
        *("alertStrategy.autoClose", "documentation.subject"),
        *("documentation.links.displayName", "documentation.links.url"),
        *(
            f"{_PROMQL}.{field}"
            for field in ("disableMetricValidation", "duration", "evaluationInterval", "query")
        ),
    },
    "google_monitoring_custom_service": {"serviceId"},
    "google_monitoring_slo": {
        *("requestBasedSli.goodTotalRatio.goodServiceFilter", "requestBasedSli.goodTotalRatio.totalServiceFilter"),
        *("rollingPeriodDays", "service", "sloId"),
    },
    "google_monitoring_monitored_project": {"metricsScope"},
    "google_cloud_scheduler_job": {
        *("attemptDeadline", "httpTarget.httpMethod", "httpTarget.uri", "region", "retryConfig.retryCount"),
        *("httpTarget.oidcToken.audience", "httpTarget.oidcToken.serviceAccountEmail"),
    },
}
"""Fields of ours that no recording sets, or that the API calls otherwise. They are not judged."""
_OF_TERRAFORM = {"project", "for_each", "count", "depends_on", "lifecycle", "provider"}


def list_ours(body: dict[str, Any], at: str = "") -> Iterator[str]:
    """Yield the fields of a resource by their paths in the API."""
    for name, value in body.items():
        if name == "dynamic":
            made = ((label, each["content"]) for labelled in value for label, each in labelled.items())
            yield from (path for label, content in made for path in list_ours({label: content}, at))
        elif name not in _OF_TERRAFORM:
            path = at + re.sub(r"_(\w)", lambda found: found[1].upper(), name)
            nested = value if isinstance(value, list) and value and isinstance(value[0], dict) else ()
            yield from (below for each in nested for below in list_ours(each, f"{path}."))
            yield from () if nested else (path,)


def list_sent(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of everything in a recorded request, without the places in lists."""
    yield path
    if isinstance(value, dict):
        yield from (each for key in value for each in list_sent(value[key], f"{path}.{key}".removeprefix(".")))
    elif isinstance(value, list):
        yield from (each for below in value for each in list_sent(below, path))


def unwrap(body: dict[str, Any]) -> dict[str, Any]:
    """Return the resource of a request, which an update of Pub/Sub wraps."""
    return next(value for value in body.values() if isinstance(value, dict)) if "updateMask" in body else body


def test_what_our_terraform_sets_comes_back_as_it_was_sent() -> None:
    module = read_configuration(TERRAFORM / "modules/provisioner")
    changed: dict[tuple[str, str], str] = {}
    unseen: dict[str, set[str]] = {}
    for resource, (api, kind) in KINDS.items():
        ours = {path for block in module.of("resource", resource) for path in list_ours(block.body)}
        writes = judge(
            each
            for each in read_recordings()
            if (each.host, each.kind) == (f"{api}.googleapis.com", kind)
            and each.method in ("POST", "PUT", "PATCH")
        )
        pairs = [(unwrap(each.body), each.answer) for each in writes]
        sent = {path for body, _ in pairs for path in list_sent(body)}
        differ = {
            path.replace("[]", "")
            for body, answer in pairs
            for path, text in find_differences(body, answer)
            if not text.startswith("not recorded")
        }
        changed |= {(resource, path): "" for path in ours & differ}
        unseen |= {resource: ours - sent} if ours - sent else {}

    assert changed.keys() == ANSWERED_OTHERWISE.keys()
    assert unseen == NOT_RECORDED
