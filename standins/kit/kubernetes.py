"""Clients of a Kubernetes API by a kubeconfig, and a watch of one kind of object.

Format: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/. Programs that a kubeconfig
names are never run, and no proxy of the environment is used.
"""

import base64
import json
import ssl
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import httpx
import yaml

from standins.kit.addresses import STAND_IN

Json = dict[str, Any]

_NAME = "tpu-provisioner-local"


class KubeconfigError(ValueError):
    """A kubeconfig cannot be used; the text names the file, the field and what is valid."""


class _Options(TypedDict):
    base_url: str
    headers: dict[str, str]
    verify: ssl.SSLContext | bool
    trust_env: bool


def open_client(path: Path | str, *, timeout_seconds: float = 10.0) -> httpx.Client:
    """Return a client for the current context of a kubeconfig; the caller closes it.

    Raises KubeconfigError: the file, or a field that it needs, is missing or wrong.
    """
    return httpx.Client(timeout=timeout_seconds, **_read_options(Path(path)))


def open_async_client(path: Path, *, timeout_seconds: float = 10.0, connections: int = 100) -> httpx.AsyncClient:
    """Return a client for the current context of a kubeconfig, for use in an event loop.

    The caller closes it.

    Raises KubeconfigError: the file, or a field that it needs, is missing or wrong.
    """
    limits = httpx.Limits(max_connections=connections)
    return httpx.AsyncClient(timeout=timeout_seconds, limits=limits, **_read_options(path))


def render_kubeconfig(url: str, *, authority: bytes = b"", token: str = "", namespace: str = "default") -> str:
    """Return a kubeconfig (JSON, which is YAML) that kubectl and the client libraries accept."""
    cluster, user = {"server": url}, {}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    if token:
        user["token"] = token
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": user}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": namespace}}],
        "current-context": _NAME,
    }
    return json.dumps(config, indent=2) + "\n"


def _read_options(path: Path) -> _Options:
    cluster, user = _read_current(path)
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("http://", "https://")):
        raise KubeconfigError(
            f"{path}: clusters[].cluster.server is {server!r}; valid: an http:// or https:// address"
        )
    try:
        token = _read_text(path, user, "token", "tokenFile")
        verify = _trust(path, cluster, user) if server.startswith("https://") else False
    except (OSError, ValueError) as error:
        raise KubeconfigError(f"{path}: token or certificate: {error}") from error
    headers = {"User-Agent": STAND_IN}
    if token:
        headers["Authorization"] = f"Bearer {token.strip()}"
    return {"base_url": server, "headers": headers, "verify": verify, "trust_env": False}


def _read_current(path: Path) -> tuple[Json, Json]:
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = getattr(error, "strerror", "") or "it is not YAML"
        raise KubeconfigError(f"{path}: cannot be read as a kubeconfig: {why}; valid: a kubeconfig") from error
    if not isinstance(config, dict):
        raise KubeconfigError(f"{path}: cannot be read as a kubeconfig: it is not a mapping")
    context = _find(path, config, "contexts", "context", config.get("current-context"))
    cluster = _find(path, config, "clusters", "cluster", context.get("cluster"))
    return cluster, _find(path, config, "users", "user", context["user"]) if context.get("user") else {}


def _find(path: Path, config: Json, group: str, field: str, name: object) -> Json:
    entries = config.get(group) or []
    for entry in entries:
        if entry.get("name") == name:
            return entry.get(field) or {}
    valid = ", ".join(str(entry.get("name")) for entry in entries) or "none"
    raise KubeconfigError(f"{path}: {group} has no entry named {name!r}; present: {valid}")


def _read_text(path: Path, section: Json, inline: str, file: str) -> str:
    """Return the text of an inline field, or of the file that another field names.

    Empty when there is neither.
    """
    if section.get(inline):
        text = str(section[inline])
        return base64.b64decode(text).decode() if inline.endswith("-data") else text
    return (path.parent / str(section[file])).read_text(encoding="utf-8") if section.get(file) else ""


def _trust(path: Path, cluster: Json, user: Json) -> ssl.SSLContext:
    def read(section: Json, field: str) -> str:
        return _read_text(path, section, f"{field}-data", field)

    context = ssl.create_default_context(cadata=read(cluster, "certificate-authority") or None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = read(user, "client-certificate"), read(user, "client-key")
    if certificate and key:
        # The ssl module reads certificates from files only.
        with tempfile.TemporaryDirectory() as folder:
            chain = Path(folder) / "client.pem"
            chain.touch(mode=0o600)
            chain.write_text(f"{certificate}\n{key}\n", encoding="utf-8")
            context.load_cert_chain(chain)
    return context


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
