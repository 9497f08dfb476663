"""Watches one kind of object in a thread: list, watch, and resume after a break.

Built on httpx only, because the demo's dependencies have no Kubernetes client; nobody here needs
more than this.
"""

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx

from standins.processes.kubeconfig import open_client

Json = dict[str, Any]

_SILENCE_SECONDS = 0.5
"""After this long without an event the watch is opened anew; a thread that is to end notices it
then. A server that has not even begun to answer by then is given more time, each time twice as
much."""
_LIST_SECONDS_MAX = 10.0
_PAUSE_SECONDS = 0.2
_WATCH_SECONDS = 20


class _Expired(Exception):
    """The resource version is too old: list again."""


class ResourceWatch(threading.Thread):
    """Tells every change of one kind of object.

    Args:
        kubeconfig: The file by which an administrator gets into the Kubernetes API.
        path: The collection, for example ``/api/v1/pods``.
        tell: Called with each object, and ``gone=`` whether it is, from this thread.
    """

    def __init__(self, kubeconfig: str, path: str, tell: Callable[..., None]) -> None:
        super().__init__(name=f"watch {path}", daemon=True)
        self._client = open_client(kubeconfig, timeout_seconds=_LIST_SECONDS_MAX)
        self._path, self._tell = path, tell
        self._items: dict[str, Json] = {}
        self._version = ""
        self._stopping = threading.Event()
        self._silence_seconds, self._answered = _SILENCE_SECONDS, False
        self.listed = threading.Event()
        """Set once the first listing has been told."""

    def end(self) -> None:
        """Ask the thread to end; it does within half a second."""
        self._stopping.set()

    def run(self) -> None:
        """Watch until asked to end; a lost connection or an expired version only costs a pause."""
        with self._client:
            while not self._stopping.is_set():
                try:
                    self._version = self._version or self._list()
                    self._watch()
                except _Expired:
                    self._version = ""
                except httpx.ReadTimeout:
                    if not self._answered:
                        self._silence_seconds = min(2 * self._silence_seconds, _LIST_SECONDS_MAX)
                except (httpx.HTTPError, json.JSONDecodeError):
                    self._stopping.wait(_PAUSE_SECONDS)

    def _list(self) -> str:
        answer = self._client.get(self._path)
        answer.raise_for_status()
        body = answer.json()
        items = {each["metadata"]["uid"]: each for each in body["items"]}
        for uid in self._items.keys() - items.keys():
            self._tell(self._items[uid], gone=True)
        self._items = items
        for each in items.values():
            self._tell(each, gone=False)
        self.listed.set()
        return str(body["metadata"]["resourceVersion"])

    def _watch(self) -> None:
        """Follow one watch to its end, keeping the version from which to go on."""
        params = {
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        timeout = httpx.Timeout(_LIST_SECONDS_MAX, read=self._silence_seconds)
        self._answered = False
        with self._client.stream("GET", self._path, params=params, timeout=timeout) as answer:
            if answer.status_code == httpx.codes.GONE:
                raise _Expired
            answer.raise_for_status()
            self._answered = True
            for line in answer.iter_lines():
                if self._stopping.is_set():
                    break
                self._version = self._take(json.loads(line)) or self._version

    def _take(self, event: Json) -> str:
        """Take one event in and return its version."""
        body = event["object"]
        if event["type"] == "ERROR":
            raise _Expired
        if event["type"] != "BOOKMARK":
            uid = body["metadata"]["uid"]
            gone = event["type"] == "DELETED"
            if gone:
                self._items.pop(uid, None)
            else:
                self._items[uid] = body
            self._tell(body, gone=gone)
        return str(body["metadata"].get("resourceVersion", ""))
