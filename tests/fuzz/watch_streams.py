"""Kubernetes objects, as the exporter lists and watches them: one odd object is reported by name.

A spoilt object is listed, and then watched, between two steady ones. The events of the steady ones
come out whatever the odd one holds; if the odd one cannot be read, a record and a count say so.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from exporter.health import Health
from exporter.metrics import Metrics
from exporter.pauses import Pauses
from exporter.watch import Follower
from exporter.watched_kinds import WatchedKind, watch_pods, watch_workloads
from shared.core.messages import Event, format_message, parse_message
from shared.edges.kubernetes_api import Connection, KubernetesApi
from shared.edges.kubernetes_objects import Stored
from shared.json_text import JSON_ERRORS
from tests.builders import CLUSTER
from tests.fuzz.border import Border, Lost
from tests.fuzz.canned_http import Canned, CannedHttp
from tests.fuzz.recording import recording
from tests.fuzz.scenes import Scene, list_scenes
from tests.fuzz.spoiling import Recipe, spoil, spoil_text, write

SCENES = list_scenes()
_METRICS = Metrics()
_COMPLETED = {"type": "Completed", "status": "True", "lastTransitionTime": "2027-01-15T07:59:30Z"}


_LINE = msgspec.defstruct("_LINE", [("type", str), ("object", Stored)])


@dataclass(frozen=True, slots=True)
class OddLine:
    """One spoilt object among steady ones, listed and watched."""

    scene: Scene
    watched: WatchedKind[Any]
    steady: bytes
    text: bytes
    kind_of_event: str
    line: bytes
    """The watch's line, which may be spoilt too."""

    @property
    def has_metadata(self) -> bool:
        """Return whether the line has what every object of the API server has."""
        try:
            msgspec.json.decode(self.line, type=_LINE)
            msgspec.json.decode(b'{"in": [' + self.text + b"]}")
        except JSON_ERRORS:
            return False
        return True


class _NoPauses(Pauses):
    def next_seconds(self, advised: float | None = None) -> float:
        return 0.0


def follow(
    watched: WatchedKind[Any], items: tuple[bytes, ...], stream: bytes, metrics: Metrics
) -> tuple[list[Event], list[dict[str, Any]]]:
    """List some objects and watch a stream once; return the events and the log records."""
    reported: list[Event] = []
    page = b'{"metadata": {"resourceVersion": "100"}, "items": [' + b", ".join(items) + b"]}"
    api = KubernetesApi(Connection(url="http://canned"))
    pool: Any = CannedHttp(lambda _method, url: Canned(stream if "watch=1" in url else page))
    api._pool = pool
    follower = Follower(
        api,
        watched,
        watched.observed(CLUSTER),
        report=lambda event, _arrived: reported.append(event),
        metrics=metrics,
        health=Health((watched.name,)),
        pauses=_NoPauses(),
    )
    with recording() as records:
        follower._follow_once()
    return reported, records.found


def _build(recipe: Recipe) -> OddLine:
    scene = recipe.choose(SCENES)
    pods = scene.kind.watched is False or bool(recipe.number(2))
    example = scene.pod if pods else scene.workload
    text = write(spoil(recipe, example))
    kind_of_event = recipe.choose(("MODIFIED", "ADDED", "DELETED", "MODIFIED", "ERROR", "BOOKMARK", "NEWS", ""))
    line = b'{"type": "' + kind_of_event.encode() + b'", "object": ' + text + b"}"
    return OddLine(
        scene=scene,
        watched=(_PODS if pods else _WORKLOADS)[scene.kind.name],
        steady=example.replace(b"uid-of-", b"uid-two-").replace(b'"namespace": "default"', b'"namespace": "two"'),
        text=text,
        kind_of_event=kind_of_event,
        line=spoil_text(recipe, line).replace(b"\n", b" ") if recipe.number(4) == 1 else line,
    )


def _check(odd: OddLine) -> None:
    gone = b'{"type": "DELETED", "object": ' + odd.steady + b"}"
    before = count_skipped(odd.watched, _METRICS)
    reported, records = follow(odd.watched, (odd.text, odd.steady), b"\n".join((odd.line, gone, b"")), _METRICS)
    for event in reported:
        _check_event(event)
    interrupted = [each for each in records if each.get("message") == "watch interrupted"]
    skipped = [each for each in records if str(each.get("message", "")).startswith("object skipped")]
    if interrupted:
        if odd.has_metadata and odd.kind_of_event not in ("ERROR", "BOOKMARK"):
            raise Lost(f"one object interrupts the watch: {interrupted}")
        return  # the next listing shows what this one did not
    if not any("uid-two-" in event.subject.uid + event.incarnation for event in reported):
        raise Lost(f"the neighbour was not reported: {records}")
    if skipped and count_skipped(odd.watched, _METRICS) == before:
        raise Lost(f"skipped and not counted: {skipped}")


def _check_event(event: Event) -> None:
    """Check that an event can be sent, and says the same on the other side."""
    message = format_message(event)
    try:
        read = parse_message(message.data, message.attributes)
    except ValueError as error:
        raise Lost(f"{event} cannot be read: {error}") from error
    except Exception as error:
        if type(error).__name__ != "MalformedEvent":
            raise
        return  # names that Kubernetes itself does not allow: kept as a dead letter
    if read.subject != event.subject:
        raise Lost(f"{event} was read as {read}")


def count_skipped(watched: WatchedKind[Any], metrics: Metrics) -> float:
    """Return how many objects of a kind could not be read."""
    return float(metrics.unreadable.labels(watched.name)._value.get())


def _show(odd: OddLine) -> str:
    return f"{odd.watched.name} list {odd.text!r}\nwatch {odd.line!r}"


_PODS = {scene.kind.name: watch_pods(scene.kind) for scene in SCENES}
_WORKLOADS = {scene.kind.name: watch_workloads(scene.kind) for scene in SCENES if scene.kind.watched}
WATCH_STREAMS = Border(name="watches", share=0.2, build=_build, check=_check, show=_show)
