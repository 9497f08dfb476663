"""Clients of a Kubernetes API by a kubeconfig: what is there, what is applied, what changes.

Which path a kind has is asked of the API itself (discovery), so that any kind that it serves can be
read and written. No proxy of the environment is used. Format of the file:
https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/.
"""

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypedDict

import httpx
import yaml

from standins.kit.addresses import STAND_IN

Json = dict[str, Any]
MERGE = {"Content-Type": "application/merge-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
_APPLY = {"Content-Type": "application/apply-patch+yaml"}
_HOW = {"fieldManager": "local-controlplane", "force": "true"}
_NAME = "tpu-provisioner-local"
_ATTEMPTS = 6
"""To apply again does no harm, and on a busy machine the largest definitions take longer than a
request waits."""
_TEXT_MAX = 2_000


class KubeconfigError(ValueError):
    """A kubeconfig cannot be used; the text names the file and what is wrong."""


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


def open_api(path: Path | str, *, timeout_seconds: float = 10.0) -> httpx.Client:
    """Return a client that raises httpx.HTTPStatusError, with the server's words, on a refusal."""
    client = open_client(path, timeout_seconds=timeout_seconds)
    client.event_hooks = {"response": [_raise_refusal]}
    return client


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
    """Return what a client needs; of a kubeconfig as `render_kubeconfig` writes it."""
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        context = _find(config, "contexts", "context", config["current-context"])
        cluster = _find(config, "clusters", "cluster", context["cluster"])
        user = _find(config, "users", "user", context["user"])
        authority = base64.b64decode(cluster.get("certificate-authority-data", "")).decode()
        verify = ssl.create_default_context(cadata=authority) if authority else False
    except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
        why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise KubeconfigError(f"{path}: cannot be used as a kubeconfig: {why}") from error
    headers = {"User-Agent": STAND_IN}
    if token := user.get("token"):
        headers["Authorization"] = f"Bearer {token}"
    return {"base_url": cluster["server"], "headers": headers, "verify": verify, "trust_env": False}


def _find(config: Json, group: str, field: str, name: str) -> Json:
    named = {entry["name"]: entry[field] for entry in config[group]}
    found: Json = named[name]
    return found


def _raise_refusal(response: httpx.Response) -> None:
    if response.is_success:
        return
    response.read()
    request = response.request
    text = f"{request.method} {request.url.path}: {response.status_code}: {response.text[:_TEXT_MAX]}"
    raise httpx.HTTPStatusError(text, request=request, response=response)


def exists(api: httpx.Client, path: str) -> bool:
    """Return whether there is something at a path.

    Raises httpx.HTTPError: the server did not answer, or refused for another reason.
    """
    try:
        api.get(path).raise_for_status()
    except httpx.HTTPStatusError as error:
        if is_refusal(error, HTTPStatus.NOT_FOUND):
            return False
        raise
    return True


def is_refusal(error: httpx.HTTPError, status: HTTPStatus) -> bool:
    """Return whether the server answered with this status."""
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code == status


class Discovery:
    """Which kinds an API serves, and where; a version is asked for once, if it is there."""

    def __init__(self, api: httpx.Client) -> None:
        self._api = api
        self._paths: dict[str, dict[str, str]] = {}
        """By API version and kind, with a place for the namespace."""

    def find_list(self, thing: Json) -> str:
        """Return the path of an object's list; empty for a kind that is not served."""
        version, namespace = thing["apiVersion"], thing["metadata"].get("namespace") or "default"
        if not self._paths.get(version):
            self._paths[version] = self._ask(version)
        return self._paths[version].get(thing["kind"], "").format(namespace=namespace)

    def find(self, thing: Json) -> str:
        """Return the path of an object. Raises LookupError: its kind is not served."""
        path = self.find_list(thing)
        if not path:
            raise LookupError(f"kind: the cluster serves no {thing['kind']} of {thing['apiVersion']}")
        return f"{path}/{thing['metadata']['name']}"

    def _ask(self, version: str) -> dict[str, str]:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if not exists(self._api, root):
            return {}
        resources = [each for each in self._api.get(root).json()["resources"] if "/" not in each["name"]]
        return {
            each["kind"]: f"{root}{'/namespaces/{namespace}' if each.get('namespaced') else ''}/{each['name']}"
            for each in resources
        }


def apply(api: httpx.Client, things: Iterable[Json]) -> None:
    """Create or change objects so that they are as given; the client is one of `open_api`.

    By server-side apply: https://kubernetes.io/docs/reference/using-api/server-side-apply/.

    Raises:
        httpx.HTTPError: the API refused one, or never answered; those before it are in place.
        LookupError: it does not serve a kind.
    """
    discovery = Discovery(api)
    for thing in things:
        path = discovery.find(thing)
        for left in reversed(range(_ATTEMPTS)):
            try:
                api.patch(path, params=_HOW, headers=_APPLY, json=thing)
                break
            except httpx.HTTPError as error:
                if not left or (isinstance(error, httpx.HTTPStatusError) and not error.response.is_server_error):
                    raise


_SILENCE_SECONDS_MAX = 5.0
"""After this long without an event the list is read again; a thread that is to end notices it
then."""
_PAUSE_SECONDS = 0.2


class ResourceWatch(threading.Thread):
    """Tells every change of one kind of object: lists, watches, and lists again after any break.

    Args:
        kubeconfig: The file by which an administrator gets into the Kubernetes API.
        path: The collection, for example ``/api/v1/pods``.
        tell: Called with each object, and ``gone=`` whether it is, from this thread.
    """

    def __init__(self, kubeconfig: str, path: str, tell: Callable[..., None]) -> None:
        super().__init__(name=f"watch {path}", daemon=True)
        self._client = open_client(kubeconfig, timeout_seconds=_SILENCE_SECONDS_MAX)
        self._path, self._tell = path, tell
        self._items: dict[str, Json] = {}
        self._stopping = threading.Event()
        self.listed = threading.Event()
        """Set once the first listing has been told."""

    def end(self) -> None:
        """Ask the thread to end; it does with the next event, or when there is none for seconds."""
        self._stopping.set()

    def run(self) -> None:
        """Watch until asked to end; a lost connection or an expired version only costs a pause."""
        with self._client:
            while not self._stopping.is_set():
                try:
                    self._watch(self._list())
                except (httpx.HTTPError, ValueError):
                    self._stopping.wait(_PAUSE_SECONDS)

    def _list(self) -> str:
        body = self._client.get(self._path).raise_for_status().json()
        items = {each["metadata"]["uid"]: each for each in body["items"]}
        for uid in self._items.keys() - items.keys():
            self._tell(self._items[uid], gone=True)
        self._items = items
        for each in items.values():
            self._tell(each, gone=False)
        self.listed.set()
        return str(body["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> None:
        """Follow one watch to its end."""
        params = {"watch": "1", "resourceVersion": version}
        with self._client.stream("GET", self._path, params=params) as answer:
            for line in answer.raise_for_status().iter_lines():
                event = json.loads(line)
                if self._stopping.is_set() or event["type"] == "ERROR":
                    return
                self._take(event["object"], gone=event["type"] == "DELETED")

    def _take(self, body: Json, *, gone: bool) -> None:
        uid = body["metadata"]["uid"]
        self._items[uid] = body
        if gone:
            del self._items[uid]
        self._tell(body, gone=gone)


def labels_of_host(machine: str, architecture: str, zone: str) -> dict[str, str]:
    """Return the labels that every node of GKE has by its machine and its place, old names too.

    Drivers of disks place pods by ``topology.gke.io/zone``:
    https://github.com/kubernetes-sigs/gcp-compute-persistent-disk-csi-driver.
    """
    region = zone.rpartition("-")[0]
    return {
        "node.kubernetes.io/instance-type": machine,
        "beta.kubernetes.io/instance-type": machine,
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
        "beta.kubernetes.io/arch": architecture,
        "topology.kubernetes.io/zone": zone,
        "topology.gke.io/zone": zone,
        "failure-domain.beta.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/region": region,
    }
