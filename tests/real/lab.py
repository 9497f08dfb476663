"""What a question may use: node pools with the label of the run, and none of them is left.

`create`, `delete` and `look` return `ACCEPTED`, or the refusal as the functions read it.
"""

import json
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError

from cli.access.connections import Deployment
from shared.edges.google import GoogleAccount, GoogleSession
from shared.model.errors import Denied, NotFound, ProvisionerError, Retryable, Unavailable

LABEL = "tpu-provisioner-test"  # of each pool that is made here; its value is the run
MACHINE = "e2-small"
ACCEPTED = "accepted"
BUSY = "400, read as Busy"
EXISTS = "409, read as AlreadyExists"
INVALID = "400, read as InvalidRequest"
ABSENT = "404, read as NotFound"
AT_REST = ("RUNNING", "RUNNING_WITH_ERROR", "ERROR")
CLEAN_SECONDS_MAX = 3600.0  # a pool cannot be deleted while GKE looks for machines, for 35 minutes


@dataclass
class Lab:
    deployment: Deployment
    cluster: str  # ``projects/P/locations/L/clusters/C``
    run: str = "test"
    tpu: str = ""  # the slice that may be created, as ``MACHINE:TOPOLOGY``
    zone: str = ""
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    deadline: float = float("inf")
    words: list[str] = field(default_factory=list)
    """Google's own words of all refusals of the question."""
    made: list[str] = field(default_factory=list)
    """The names of pools that may be there, each noted before it is requested."""

    @cached_property
    def gke(self) -> GoogleSession:
        """The GKE API, for what no edge asks."""
        return self.open_api(self.deployment.settings.gke_endpoint)

    def open_api(self, endpoint: str) -> GoogleSession:
        """Return another of Google's APIs, with the same account."""
        return GoogleSession(endpoint, GoogleAccount(self.deployment.settings.credentials))

    def new_name(self, length: int = 0) -> str:
        """Return a new name, filled up to a length."""
        name = f"{LABEL}-{secrets.token_hex(4)}".ljust(length, "x")
        self.made.append(name)
        return name

    def create(self, name: str, labels: dict[str, str] | None = None, **fields: Any) -> str:
        config = {"machineType": MACHINE} | fields.pop("config", {})
        config["labels"] = {**(labels or {}), LABEL: self.run}
        body = {"management": {"autoRepair": True, "autoUpgrade": True}, **fields, "name": name, "config": config}
        return self._submit("POST", f"v1/{self.cluster}/nodePools", {"nodePool": body})

    def delete(self, name: str) -> str:
        return self._submit("DELETE", f"v1/{self.cluster}/nodePools/{name}")

    def look(self, below: str) -> str:
        return self._submit("GET", f"v1/{self.cluster}{below}")

    def read(self, below: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.gke.call("GET", f"v1/{self.cluster}{below}"))
        return found

    def list_pools(self) -> list[dict[str, Any]]:
        return list(self.read("/nodePools").get("nodePools", []))

    def list_operations(self) -> list[dict[str, Any]]:
        path = f"v1/{self.cluster.partition('/clusters/')[0]}/operations"
        return list(json.loads(self.gke.call("GET", path)).get("operations", []))

    def find_create(self, name: str) -> dict[str, Any]:
        ours = [each for each in self.list_operations() if each.get("targetLink", "").endswith(f"/{name}")]
        return next((each for each in ours if each.get("operationType") == "CREATE_NODE_POOL"), {})

    def find_status(self, name: str) -> str:
        with suppress(NotFound):
            return str(self.read(f"/nodePools/{name}").get("status", ""))
        return ""

    def make(self, **fields: Any) -> str:
        """Return the name of a new pool that GKE has finished; a refusal ends the question."""
        name = self.new_name()
        self.accept(self.create(name, **fields))
        self.wait(f"{name} to be created", lambda: self.find_status(name) in AT_REST)
        return name

    def accept(self, answer: str) -> None:
        if answer != ACCEPTED:
            pytest.skip(f"GKE refuses what the question needs first: {answer} ({self.words})")

    def at_once(self, calls: Sequence[Callable[[], str]]) -> list[str]:
        with ThreadPoolExecutor(min(len(calls), 8)) as threads:
            return list(threads.map(lambda call: call(), calls))

    def wait(self, what: str, look: Callable[[], bool], *, every: float = 2.0) -> float:
        """Return the seconds until a look succeeds; the question fails at the end of its time."""
        began = self.now()
        while True:
            with suppress(Retryable):
                if look():
                    return self.now() - began
            if self.now() >= self.deadline:
                pytest.fail(f"it waited {self.now() - began:.0f} s for {what}")
            self.sleep(every)

    def clean(self) -> None:
        """Delete the pools of the run until GKE lists none, and answers each deletion with 404.

        Those of a run of this name that was killed go too, because they have the label.
        """
        self.deadline = self.now() + CLEAN_SECONDS_MAX
        self.wait("the deletion of its pools", lambda: not self._delete_all(), every=10.0)
        self.made.clear()
        self.words.clear()

    def _delete_all(self) -> list[str]:
        """Submit the deletion of each pool of the run; return the names of those that are left."""
        labels = {each["name"]: each.get("config", {}).get("labels", {}) for each in self.list_pools()}
        names = {*self.made, *(name for name, found in labels.items() if found.get(LABEL) == self.run)}
        return [name for name in names if self.delete(name) != ABSENT]

    def _submit(self, verb: str, path: str, body: dict[str, Any] | None = None) -> str:
        """Return `ACCEPTED`, or the refusal as GKE writes it and as the functions read it."""
        try:
            self.gke.call(verb, path, body)
        except ProvisionerError as error:
            cause = error.__cause__
            if isinstance(error, Unavailable | Denied) or not isinstance(cause, GoogleAPICallError):
                raise  # nothing is known
            self.words.append(str(error))
            return f"{cause.code or 0:d}, read as {type(error).__name__}"
        return ACCEPTED
