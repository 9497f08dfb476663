"""The node pools that the questions make: each has the label of its run, and none is left."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from google.api_core.exceptions import GoogleAPICallError

from cli.conformance.questions import NotAsked, Seen
from cli.exit_codes import say
from shared.core.errors import Denied, NotFound, ProvisionerError, Retryable, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cli.access.operator_access import Deployment
    from cli.conformance.report import Report

LABEL = "tpu-provisioner-conformance"
"""The node label of each pool that is made here; its value is the run."""
ACCEPTED = "accepted"
MACHINE = "e2-small"
CLEAN_SECONDS_MAX = 3600.0
"""GKE holds a pool that waits for machines for 35 minutes, and it cannot be deleted before."""
LAG_SECONDS = 60.0
"""So long after a lost answer GKE may still tell of no pool."""
_PAUSE_SECONDS, _TELL_SECONDS = 5.0, 60.0
AT_REST = ("RUNNING", "RUNNING_WITH_ERROR", "ERROR")
_AT_ONCE = 8


class OutOfTime(Exception):
    """The time of the question is over; the text says what it waited for."""


@dataclass(slots=True)
class Lab:
    """What a question may use. All changes of GKE go through `create`, `delete` and `resize`."""

    deployment: Deployment
    cluster: str
    report: Report
    now: Callable[[], float]
    sleep: Callable[[float], None]
    save: Callable[[], None]
    """Keeps the report; called before each create, so that a killed run knows its pools."""
    tell: Callable[[str], None] = lambda _text: None
    """Prints one line of progress."""
    tpu: str = ""
    zone: str = ""
    deadline: float = float("inf")
    lost: bool = False
    """The answer to a request was lost since the last clean-up."""
    words: str = ""
    """Google's own words of the last refusal."""
    _described: dict[str, Any] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """Return the cluster as GKE describes it, read once."""
        self._described = self._described or self.read("")
        return self._described

    def new_name(self) -> str:
        """Return a name that no pool of the run has had, and keep it before the pool exists."""
        name = f"conformance-{self.report.run}-{len(self.report.made)}"
        self.note(name)
        return name

    def note(self, name: str) -> None:
        """Keep the name of a pool that is about to be made."""
        self.report.made.append(name)
        self.save()

    def create(self, name: str, labels: dict[str, str] | None = None, **fields: Any) -> str:
        """Submit a pool without nodes; return `ACCEPTED`, or how GKE refuses it."""
        config = {"machineType": MACHINE} | fields.pop("config", {})
        config["labels"] = {**(labels or {}), LABEL: self.report.run}
        body = {"management": {"autoRepair": True, "autoUpgrade": True}, **fields, "name": name, "config": config}
        return self._submit("POST", f"v1/{self.cluster}/nodePools", {"nodePool": body})

    def delete(self, name: str) -> str:
        """Submit a deletion; return `ACCEPTED`, or how GKE refuses it."""
        return self._submit("DELETE", f"v1/{self.cluster}/nodePools/{name}")

    def resize(self, name: str, nodes: int) -> str:
        """Submit another size; return `ACCEPTED`, or how GKE refuses it."""
        return self._submit("POST", f"v1/{self.cluster}/nodePools/{name}:setSize", {"nodeCount": nodes})

    def read(self, below: str) -> dict[str, Any]:
        """Return a JSON answer about the cluster, for example ``/nodePools/NAME``."""
        found: dict[str, Any] = json.loads(self.deployment.gke.call("GET", f"v1/{self.cluster}{below}"))
        return found

    def look(self, below: str) -> str:
        """Return `ACCEPTED` for a read that GKE answers, or how it refuses it."""
        return self._submit("GET", f"v1/{self.cluster}{below}")

    def list_pools(self) -> list[dict[str, Any]]:
        """Return all pools of the cluster."""
        return list(self.read("/nodePools").get("nodePools", []))

    def list_operations(self) -> list[dict[str, Any]]:
        """Return the operations of the cluster's location that GKE still knows."""
        location = self.cluster.partition("/clusters/")[0]
        return list(json.loads(self.deployment.gke.call("GET", f"v1/{location}/operations")).get("operations", []))

    def find_status(self, name: str) -> str:
        """Return the status of a pool; empty if there is none."""
        try:
            return str(self.read(f"/nodePools/{name}").get("status", ""))
        except NotFound:
            return ""

    def make(self, **fields: Any) -> str:
        """Return the name of a new pool that GKE has finished.

        Raises:
            NotAsked: GKE refuses it.
            OutOfTime: it is not finished in time.
        """
        name = self.new_name()
        self.accept(self.create(name, **fields))
        self.wait(f"{name} to be created", lambda: self.find_status(name) in AT_REST)
        return name

    def accept(self, answer: str) -> None:
        """Raise `NotAsked` unless GKE has accepted a request that the question only prepares."""
        if answer != ACCEPTED:
            raise NotAsked(f"GKE refuses what the question needs first: {answer} ({self.words})")

    def answer(self, text: str, switch: str = "", **settings: Any) -> Seen:
        """Return an answer with Google's words, and the fake's switch if it has one for it."""
        details = {"words": self.words} if self.words else {}
        return Seen(text=text, details=details, faults=({"switch": switch, **settings},) if switch else ())

    def at_once(self, calls: Sequence[Callable[[], str]]) -> list[str]:
        """Return the answers of requests that are sent side by side."""
        with ThreadPoolExecutor(min(len(calls), _AT_ONCE)) as threads:
            return list(threads.map(lambda call: call(), calls))

    def wait(self, what: str, look: Callable[[], bool], *, every: float = _PAUSE_SECONDS) -> float:
        """Return the seconds until a look succeeds.

        Raises:
            OutOfTime: it does not succeed before the question's time is over.
        """
        began, told = self.now(), 0
        while not _succeeds(look):
            if self.now() >= self.deadline:
                raise OutOfTime(f"it waited {self.now() - began:.0f} s for {what}")
            if (self.now() - began) // _TELL_SECONDS > told:
                told += 1
                self.tell(f"  waiting for {what}: {self.now() - began:.0f} s")
            self.sleep(every)
        return self.now() - began

    def clean(self) -> None:
        """Delete the pools of the run until GKE lists none, and answers each deletion with 404.

        A lost answer and a late read hide no pool, because the report keeps each name.

        Raises:
            OutOfTime: pools are left after an hour; the text names them.
        """
        if self.lost:
            self.tell(f"  waiting {LAG_SECONDS:.0f} s: GKE may still take a request whose answer was lost")
            self.sleep(LAG_SECONDS)
        self.lost = False
        self.deadline = self.now() + CLEAN_SECONDS_MAX
        names = self.report.made[self.report.cleaned :]
        self.wait("the deletion of its pools", lambda: not self._delete_all(names))
        self.report.cleaned = len(self.report.made)
        self.save()

    def _delete_all(self, names: Iterable[str]) -> list[str]:
        """Submit the deletion of each pool of the run; return the names of those that are left."""
        listed = [each["name"] for each in self.list_pools() if read_run(each) == self.report.run]
        others = [name for name in names if name not in listed and not self._is_foreign(name)]
        answers = {name: self.delete(name) for name in (*listed, *others)}
        return [name for name, answer in answers.items() if not answer.startswith(f"{HTTPStatus.NOT_FOUND:d} ")]

    def _is_foreign(self, name: str) -> bool:
        try:
            return read_run(self.read(f"/nodePools/{name}")) != self.report.run
        except NotFound:
            return False  # or it is too new to be read

    def _submit(self, verb: str, path: str, body: dict[str, Any] | None = None) -> str:
        """Return `ACCEPTED`, or the refusal as GKE writes it and as the functions read it.

        Raises:
            Unavailable: there was no answer, so nothing is known.
            Denied: the person does not have the right to ask.
        """
        self.words = ""
        try:
            self.deployment.gke.call(verb, path, body)
        except KeyboardInterrupt:
            self.lost = True
            raise
        except ProvisionerError as error:
            self.lost = self.lost or isinstance(error, Unavailable)
            cause = error.__cause__
            if isinstance(error, Unavailable | Denied) or not isinstance(cause, GoogleAPICallError):
                raise
            self.words = say(error)
            return f"{cause.code or 0:d} {_read_status(cause)}, read as {type(error).__name__}"
        return ACCEPTED


def _succeeds(look: Callable[[], bool]) -> bool:
    """Return what a look finds; one without an answer is made again."""
    try:
        return look()
    except Retryable:
        return False


def read_run(pool: dict[str, Any]) -> str:
    """Return which run has made a pool; empty for the pools of others."""
    return str(pool.get("config", {}).get("labels", {}).get(LABEL, ""))


def _read_status(error: GoogleAPICallError) -> str:
    """Return the canonical code of a refusal over REST."""
    try:
        return str(json.loads(error.response.content)["error"]["status"])
    except (ValueError, LookupError, TypeError, AttributeError):
        return "without a status"
