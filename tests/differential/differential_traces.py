"""Makes comparable what was seen: names without random parts, one course per object.

An object is known by what it is for, not by what it happens to be called: a pod by its Job, index
and turn, a Job or JobSet by its name and turn. UIDs become such names too, and times only say that
there is one.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from exporter.observed_objects import ObservedPods, ObservedWorkloads, WatchedPod
from shared.edges.pods import read_workload
from shared.kinds.jobset import JOBSET
from tests.differential.differential_observer import EVENTS, JOBS, JOBSETS, LEADERS, NODES, PODS, REST, Sight
from tests.differential.differential_stage import Answer

Json = dict[str, Any]
Flat = dict[str, str]

KINDS = {PODS: "Pod", JOBS: "Job", JOBSETS: "JobSet", NODES: "Node", EVENTS: "Event"}
_RANDOM = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_WORD = re.compile(r"[a-z0-9][-a-z0-9]*")
_HOST = re.compile(r"(diff-[a-z]+\.[a-z]+)-\d+")
_REFUSED = 400
_ANYWHERE = "the whole script"
"""The scene of refusals that pass. Whether a leader has its node before its follower is made is a
race, and an Event of the scheduler is a best effort. The pod's condition is compared instead.
"""
_TOKEN_VOLUME = re.compile(r"(kube-api-access)-[a-z0-9]{5}")
_KEYED = {"conditions": "type"} | dict.fromkeys(
    ("replicatedJobsStatus", "containerStatuses", "containers", "env", "replicatedJobs", "volumes"), "name"
)
"""Lists whose items have a name by which a path can speak of them."""
_DROPPED = {"managedFields", "resourceVersion", "selfLink", "lastHeartbeatTime", "lastProbeTime"}
PASSING = re.compile(r"status\.conditions\[PodScheduled\]\..*|status\.completedIndexes")
"""Paths whose passing values are a race: they are compared only while nothing moves.

While nodes arrive, a scheduler may try a pod once or twice before its place is there. A Job may
count two pods at once.
"""


@dataclass
class Course:
    """What one watch showed of one object: the types of events, and every distinct state."""

    types: list[str] = field(default_factory=list)
    """Without the events that changed only `PASSING` fields, or nothing that can be compared."""
    states: list[Flat] = field(default_factory=list)
    rests: list[Flat] = field(default_factory=list)
    """The states that it was in when nothing moved; what is gone is in none."""

    def take(self, event_type: str, state: Flat) -> None:
        """Note an event and the state of the object after it."""
        before = self.states[-1] if self.states else {}
        changed = {path for path, _ in before.items() ^ state.items()}
        if event_type != "MODIFIED" or not all(map(PASSING.fullmatch, changed)):
            self.types.append(event_type)
        if changed:
            self.states.append(state)


@dataclass
class Trace:
    """Everything that can be compared about one run of the script."""

    courses: dict[tuple[str, str, str], Course] = field(default_factory=lambda: defaultdict(Course))
    """By scene, watch and object."""
    events: dict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By scene and object: type, reason, component and message."""
    observed: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    """By scene and object: what the exporter would publish."""
    answers: dict[tuple[str, str], str] = field(default_factory=dict)
    """By scene and question: code and reason."""


class Names:
    """The names by which both runs know their objects."""

    def __init__(self, sights: list[Sight]) -> None:
        self._by_uid: dict[str, str] = {}
        self._by_name: dict[str, str] = {}
        turns: Counter[tuple[str, str, str]] = Counter()
        for sight in sights:
            meta = sight.body["metadata"]
            if sight.watch not in KINDS or sight.watch == EVENTS or meta["uid"] in self._by_uid:
                continue
            name = _RANDOM.sub("", meta["name"]) if "generateName" in meta else meta["name"]
            turn = (sight.watch, meta.get("namespace", ""), name)
            turns[turn] += 1
            known = name if turns[turn] == 1 else f"{name}#{turns[turn]}"
            self._by_uid[meta["uid"]] = known
            if name != meta["name"]:
                self._by_name[meta["name"]] = known

    def of(self, body: Json) -> str:
        """The name of an object that was seen."""
        return self._by_uid[body["metadata"]["uid"]]

    def of_uid(self, uid: str) -> str:
        """The name of the object that has a UID."""
        return self._by_uid.get(uid, "somebody")

    def settle(self, text: str, *, hosts: bool = True) -> str:
        """A text without random parts; without `hosts` each node keeps its number."""
        text = _TIME.sub("<time>", text)
        text = _UID.sub(lambda found: f"<uid of {self.of_uid(found[0])}>", text)
        text = _TOKEN_VOLUME.sub(r"\1-<random>", text)
        text = _HOST.sub(r"\1-<host>", text) if hosts else text
        return _WORD.sub(lambda found: self._by_name.get(found[0], found[0]), text)


def read_trace(sights: list[Sight], answers: list[Answer]) -> Trace:
    """Return one run's trace."""
    names, trace = Names(sights), Trace()
    for sight in sights:
        if sight.watch == REST:
            for (scene, _, _), course in trace.courses.items():
                if scene == sight.scene and course.types[-1] != "DELETED":
                    course.rests.append(course.states[-1])
        if sight.watch in (EVENTS, REST):
            continue
        course = trace.courses[sight.scene, sight.watch, names.of(sight.body)]
        course.take(sight.type, flatten(sight.body, names))
    _read_events(sights, names, trace)
    _read_observed(sights, names, trace)
    for answer in answers:
        reason = answer.body.get("reason", "") if answer.code >= _REFUSED else ""
        trace.answers[answer.scene, answer.question] = f"{answer.code} {reason}".strip()
    return trace


def flatten(body: Json, names: Names) -> Flat:
    """Return every field of an object by its path; items of lists by their names."""
    hosts = body.get("kind") != "Node"
    return {names.settle(path): names.settle(value, hosts=hosts) for path, value in _walk(body, "")}


def _walk(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            if key not in _DROPPED:
                yield from _walk(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and _last(path) in _KEYED:
        for inner in value:
            yield from _walk(inner, f"{path}[{inner[_KEYED[_last(path)]]}]")
    # An empty list or object says as much as none, except for the two halves of an object.
    elif value not in ({}, [], None) or path in ("spec", "status"):
        yield path, value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _read_events(sights: list[Sight], names: Names, trace: Trace) -> None:
    newest = {sight.body["metadata"]["uid"]: sight.body for sight in sights if sight.watch == EVENTS}
    for body in newest.values():
        about = body["involvedObject"]
        if about["kind"] not in KINDS.values() or _is_stumble(body):
            continue
        subject = f"{about['kind']} {names.of_uid(about.get('uid', ''))}"
        component = body.get("reportingComponent") or body.get("source", {}).get("component", "")
        message = names.settle(body.get("message", ""))
        text = f"{body['type']} {body['reason']} ({component}): {message}"
        scene = body["metadata"]["namespace"]
        if body["reason"] == "FailedScheduling":
            if message in _standing(trace, scene, subject):
                trace.events[_ANYWHERE, about["kind"]][text] = 1
        elif body["reason"] == "FailedCreate":
            trace.events[_ANYWHERE, about["kind"]][text] = 1
        else:
            trace.events[scene, subject][text] += 1


def _is_stumble(event: Json) -> bool:
    """Whether a controller tried to make what it had made, because its cache was behind."""
    return bool(event["reason"] == "JobCreationFailed" and event["message"].endswith("already exists"))


def _standing(trace: Trace, scene: str, subject: str) -> set[str]:
    """The scheduler's messages about a pod while nothing moved."""
    course = trace.courses.get((scene, PODS, subject.partition(" ")[2]), Course())
    return {state.get("status.conditions[PodScheduled].message", "") for state in course.rests}


def _read_pod(body: Json) -> WatchedPod:
    return msgspec.json.decode(msgspec.json.encode(body), type=WatchedPod)


def _read_observed(sights: list[Sight], names: Names, trace: Trace) -> None:
    """Show the exporter what its two watches would have shown it."""
    pods, jobsets = ObservedPods("cluster", JOBSET), ObservedWorkloads("cluster", JOBSET)
    for sight in sights:
        if sight.watch not in (LEADERS, JOBSETS):
            continue
        watch: Any = pods if sight.watch == LEADERS else jobsets
        seen = _read_pod(sight.body) if sight.watch == LEADERS else read_workload(JOBSET, sight.body)
        events = watch.lose(seen) if sight.type == "DELETED" else watch.see(seen)
        for event in events:
            subject = f"{event.subject.kind} {names.of_uid(event.subject.uid)}"
            text = names.settle(event.cause)
            if event.covers_all_leaders:
                # By pod, because the pods of one workload come in any order.
                text = f"demand of {subject}"
                subject = f"Pod {names.of_uid(event.cause)}"
            trace.observed[sight.scene, subject].append(text)
