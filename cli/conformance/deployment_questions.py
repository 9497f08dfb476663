"""The questions about a deployment: what it logs, publishes, measures and lets in."""

from __future__ import annotations

import json
import uuid
from typing import Any
from urllib.parse import urlencode

import msgspec
import urllib3

from cli.access.log_search import list_newest, read_moment
from cli.conformance.probe_pools import Lab, OutOfTime
from cli.conformance.questions import NotAsked, Seen, question
from shared.core.messages import Event, EventType, Message, ObjectName, Observed, format_message
from shared.core.operations import parse_entry
from shared.edges.kubernetes_objects import Record
from shared.edges.pubsub_topic import PubsubTopic

_ENTRY_SECONDS_MAX = 60.0
_METRIC = 'logging_googleapis_com:user_tpu_provisioner_sweeps{monitored_resource="cloud_run_revision"}'
_SWEEPS = f"sum(increase({_METRIC}[1h]))"
"""As the alerts in ``infra/terraform/modules/provisioner`` write it."""
_REFUSED = (401, 403, 404)
_FUNCTION_PAGE = b"<title>404 Not Found</title>"
"""What the functions' own framework answers for a path that it does not serve."""


class _UserInfo(Record):
    username: str = ""


class _ReviewStatus(Record):
    user_info: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _Review(Record):
    status: _ReviewStatus = msgspec.field(default_factory=_ReviewStatus)


def _find_entries(lab: Lab, wanted: str, since: float) -> list[Any]:
    if lab.deployment.open_logs is None:
        raise NotAsked("TPU_PROVISIONER_LOGGING_ENDPOINT is empty")
    return list_newest(lab.deployment.open_logs, lab.cluster, wanted, since=since, most=20)


@question("audit-entry", minutes=6, assumed="read as the end of its creation, within a minute")
def ask_audit_entry(lab: Lab) -> Seen:
    """Create a pool, and wait for its entry in the audit log."""
    began, name = lab.now(), lab.make()
    log = f"projects/{lab.cluster.split('/')[1]}/logs/cloudaudit.googleapis.com%2Factivity"
    wanted = f'logName="{log}" AND protoPayload.resourceName:"/nodePools/{name}"'
    found: list[Any] = []

    def has_last() -> bool:
        found[:] = [each.to_api_repr() for each in _find_entries(lab, wanted, began - 60.0)]
        return any(each.get("operation", {}).get("last") for each in found)

    delay = lab.wait(f"the last audit entry of {name}", has_last)
    last = next(each for each in found if each.get("operation", {}).get("last"))
    ended = parse_entry(json.dumps(last).encode())
    read = "not as the end of a node pool operation"
    if ended is not None:
        read = "as the end of its creation" if ended.created and ended.pool == name else "as another end"
    late = delay > _ENTRY_SECONDS_MAX
    text = f"read {read}, within a minute" if not late else f"read {read}, later than a minute"
    details = {
        "seconds after GKE showed the end": f"{delay:.0f}",
        "entries": str(len(found)),
        "type": str(last.get("resource", {}).get("type")),
        "method": str(last.get("protoPayload", {}).get("methodName")),
    }
    faults = ({"switch": "audit_entries", "copies": 1, "delay": round(delay, 1)},) if late else ()
    return Seen(text=text, details=details, faults=faults)


def _publish(lab: Lab, message: Message) -> str:
    topic = lab.deployment.own.topic
    if not topic:
        raise NotAsked("TPU_PROVISIONER_TOPIC is empty")
    return PubsubTopic(lab.deployment.open_publisher, topic).publish([message])[0]


@question("push", minutes=6, assumed="provision answers demand_gone")
def ask_push(lab: Lab) -> Seen:
    """Publish an event about an absent pod, and wait for the function's answer in the log."""
    pod = ObjectName(kind="Pod", namespace="tpu-provisioner", name="conformance", uid=str(uuid.uuid4()))
    event = Event(type=EventType.DEMAND, cluster=lab.cluster, subject=pod, observed=Observed.UNSCHEDULABLE)
    began = lab.now()
    _find_entries(lab, 'jsonPayload.message="published"', began)  # it is not asked where no log can show it
    _publish(lab, format_message(event))
    found: list[Any] = []

    def is_answered() -> bool:
        found[:] = _find_entries(lab, f'jsonPayload.event_id="{event.id}" AND jsonPayload.reason:*', began - 60.0)
        return bool(found)

    seconds = lab.wait("the function's log record", is_answered)
    record = found[0].payload if isinstance(found[0].payload, dict) else {}
    at = read_moment(found[0])
    details = {"seconds until it was found": f"{seconds:.0f}", "logged after": f"{(at or began) - began:.1f} s"}
    return Seen(
        text=f"provision answers {record.get('reason')}",
        details={**details, "message": str(record.get("message"))},
    )


@question("ingress", minutes=1, assumed="all functions refuse a caller without a token")
def ask_ingress(lab: Lab) -> Seen:
    """Call each function from here, without a token."""
    uris = lab.deployment.own.function_uris
    if not uris:
        raise NotAsked("TPU_PROVISIONER_FUNCTION_URIS is empty")
    details = {}
    for name, uri in uris.items():
        try:
            answer = lab.deployment.http.request(
                "GET", f"{uri.rstrip('/')}/robots.txt", timeout=10.0, retries=False, redirect=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise OutOfTime(f"there is no answer at {uri}: {error}") from error
        closed = answer.status in _REFUSED and _FUNCTION_PAGE not in answer.data
        details[name] = f"HTTP {answer.status}, {'refused' if closed else 'answered by the function'}"
    shut = all(each.endswith("refused") for each in details.values())
    return Seen(
        text="all functions refuse a caller without a token" if shut else "a function can be called",
        details=details,
    )


@question("user-name", minutes=1, assumed="an e-mail address")
def ask_user_name(lab: Lab) -> Seen:
    """Ask the API server, at the endpoint of the functions, for the name of the caller."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    api = lab.deployment.apis[lab.cluster]
    name = api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", body, _Review).status.user_info.username
    endpoint = lab.deployment.settings.clusters[lab.cluster].endpoint
    text = "an e-mail address" if "@" in name and ":" not in name else "another form"
    return Seen(text=text, details={"user": name, "endpoint": endpoint})


@question("metric-names", minutes=1, assumed="the sweeps are counted")
def ask_metric_names(lab: Lab) -> Seen:
    """Ask Cloud Monitoring for the sweeps of the last hour, as the alerts do."""
    if lab.deployment.monitoring is None:
        raise NotAsked("TPU_PROVISIONER_MONITORING_ENDPOINT is empty")
    project = (lab.deployment.own.topic or lab.cluster).split("/")[1]
    path = f"v1/projects/{project}/location/global/prometheus/api/v1/query?{urlencode({'query': _SWEEPS})}"
    answer = json.loads(lab.deployment.monitoring.call("GET", path))
    values = [each["value"][1] for each in answer.get("data", {}).get("result", [])]
    good = any(float(value) > 0 for value in values)
    return Seen(
        text="the sweeps are counted" if good else "nothing is counted", details={"value": ", ".join(values)}
    )
