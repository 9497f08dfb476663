"""The ASGI application: reads a request, calls the cluster, writes the answer.

Paths: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from standins.cluster import kubectl
from standins.cluster.deletion import delete, read_options
from standins.cluster.kinds import BY_PATH, NAMESPACE, POD, SERVICE, Json, Kind
from standins.cluster.patches import read_media_type, read_object, read_patch
from standins.cluster.reads import Selection, Watch, WatchDropped, encode_list, read_number
from standins.cluster.refusals import ApiError, about
from standins.cluster.store import Stored, encode
from standins.cluster.writing import Registry

_JSON = "application/json"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_OK, _CREATED = 200, 201
_ANSWERED_WITH_THE_OBJECT = (POD, SERVICE, NAMESPACE)
_ONLY_STORED = "the embedded cluster stores a {} and does nothing with it; CLUSTER=real does (docs/local-stack.md)"
"""kubectl prints it as a warning: https://kubernetes.io/blog/2020/09/03/warnings/."""
_ACCESS_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True)
class Target:
    """What a URL is about; without a name, a whole list."""

    kind: Kind
    namespace: str | None
    name: str = ""
    subresource: str = ""


def read_path(path: str) -> Target:
    """Return the target of a path. Raises ApiError: 404, when no kind is served there."""
    parts = path.strip("/").split("/")
    size = 3 if parts[0] == "apis" else 2  # apis/<group>/<version>, api/<version>
    prefix = "/".join(parts[:size])
    namespace, rest = _split_namespace(prefix, parts[size:])
    plural, name, subresource, *more = (*rest, "", "", "")
    kind = BY_PATH.get((prefix, plural))
    if kind is None or any(more) or (subresource and not (subresource == "status" and kind.has_status)):
        raise ApiError(404, "the server could not find the requested resource")
    if kind.namespaced == (namespace is None) and (name or namespace):
        raise ApiError(404, "the server could not find the requested resource")
    return Target(kind, namespace, name, subresource)


def _split_namespace(prefix: str, rest: list[str]) -> tuple[str | None, list[str]]:
    """Return the namespace of ``namespaces/NAMESPACE/RESOURCE/…`` if any, and what follows."""
    if rest[:1] == ["namespaces"] and (prefix, "".join(rest[2:3])) in BY_PATH:
        return rest[1], rest[2:]
    return None, rest


class Api:
    """The HTTP face of one cluster."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store
        self._watches: set[Watch] = set()

    def application(self) -> ASGIApp:
        """Return the ASGI application."""
        routes = [
            *(Route(path, _say_ok) for path in ("/healthz", "/livez", "/readyz")),
            Route("/admin/disconnect", self._disconnect, methods=["POST"]),
            Route(_ACCESS_REVIEW, _allow, methods=["POST"]),
            Route("/{path:path}", self._serve, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]
        return _BreakingOff(Starlette(routes=routes))

    def end_watches(self, *, abruptly: bool = False) -> int:
        """End all watches, or break them off; return how many there were."""
        watches = tuple(self._watches)
        for watch in watches:
            watch.end(abruptly=abruptly)
        return len(watches)

    async def _disconnect(self, _request: Request) -> Response:
        return JSONResponse({"dropped": self.end_watches(abruptly=True)})

    async def _serve(self, request: Request) -> Response:
        body = await request.body()
        try:
            if request.method in ("GET", "HEAD"):
                return self._read(request)
            return self._change(request, body)
        except ApiError as error:
            return _json(encode(error.status()), error.code)

    def _read(self, request: Request) -> Response:
        path, query = request.url.path, request.query_params
        if (document := kubectl.DOCUMENTS.get(path.strip("/"))) is not None:
            return _json(encode(document))
        target = read_path(path)
        if target.name:
            return self._answer(request, self._get(target))
        selection = Selection.read(target.kind, target.namespace, query)
        as_table = kubectl.wants_table(request.headers.get("accept", ""))
        if query.get("watch", "false").lower() in {"true", "1"}:
            watch = Watch(self._store, selection, query, as_table=as_table)
            return StreamingResponse(self._stream(watch), media_type=_JSON)
        read_number(query, "limit")
        if query.get("continue"):
            raise ApiError(400, "continue key is not valid: every list of the embedded cluster is one page")
        write = kubectl.encode_table if as_table else encode_list
        return _json(write(target.kind, selection.find(self._store), str(self._store.revision)))

    async def _stream(self, watch: Watch) -> AsyncIterator[bytes]:
        self._watches.add(watch)
        try:
            async for chunk in watch.stream():
                yield chunk
        finally:
            self._watches.discard(watch)

    def _change(self, request: Request, body: bytes) -> Response:
        target, query = read_path(request.url.path), request.query_params
        if query.get("dryRun"):
            raise ApiError(400, "dryRun: there are no dry runs here. CLUSTER=real has them (docs/local-stack.md)")
        media_type = read_media_type(request.headers.get("content-type", ""))
        if media_type == _PROTOBUF:
            # `kubectl create KIND NAME` sends it; `kubectl create -f FILE` sends JSON.
            raise ApiError(415, f"{_PROTOBUF}: only JSON and YAML are read here. Use kubectl create -f FILE.")
        match request.method, bool(target.name):
            case "POST", False:
                return self._create(request, target, body)
            case "PUT", True:
                return self._answer(request, self._replace(target, read_object(body)))
            case "PATCH", True:
                change = read_patch(target.kind, media_type, body)
                old = self._get(target)
                new = self._registry.replace(old, change(old.body()), status_only=bool(target.subresource))
                return self._answer(request, new)
            case "DELETE", _ if not target.subresource:
                return self._delete(request, target, body)
        raise ApiError(405, "the server does not allow this method on the requested resource")

    def _get(self, target: Target) -> Stored:
        return self._registry.get(target.kind, target.namespace or "", target.name)

    def _create(self, request: Request, target: Target, body: bytes) -> Response:
        if target.namespace is None and target.kind.namespaced:
            raise ApiError(405, "the server does not allow this method on the requested resource")
        stored = self._registry.create(target.kind, read_object(body), target.namespace or "")
        answer = self._answer(request, stored, _CREATED)
        if target.kind.only_stored:
            answer.headers["Warning"] = f'299 - "{_ONLY_STORED.format(target.kind.kind)}"'
        return answer

    def _replace(self, target: Target, new: Json) -> Stored:
        name = new.get("metadata", {}).get("name", target.name)
        if name != target.name:
            raise ApiError(400, f"the object is named {name}, and the one on the URL {target.name}")
        return self._registry.replace(self._get(target), new, status_only=bool(target.subresource))

    def _delete(self, request: Request, target: Target, body: bytes) -> Response:
        """Delete an object or all selected ones; a Status is the answer for one that is gone."""
        kind, query = target.kind, request.query_params
        options = read_options(body, dict(query))
        if not target.name:
            selected = Selection.read(kind, target.namespace, query).find(self._store)
            left = [delete(self._registry, stored, options)[0] for stored in selected]
            return _json(encode_list(kind, left, str(self._store.revision)))
        stored = self._get(target)
        last, gone = delete(self._registry, stored, options)
        if not gone or kind in _ANSWERED_WITH_THE_OBJECT:
            return self._answer(request, last)
        head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return _json(encode(head | {"details": about(kind, stored.name) | {"uid": stored.uid}}))

    def _answer(self, request: Request, stored: Stored, code: int = _OK) -> Response:
        if kubectl.wants_table(request.headers.get("accept", "")):
            return _json(kubectl.encode_table(stored.kind, [stored], str(stored.version)), code)
        return _json(stored.encoded, code)


class _BreakingOff:
    """Ends the response of a dropped watch in the middle; the server then closes the connection."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._inner(scope, receive, send)
        except* WatchDropped:
            pass


def _json(body: bytes, code: int = _OK) -> Response:
    return Response(body, status_code=code, media_type=_JSON)


async def _say_ok(_request: Request) -> Response:
    return PlainTextResponse("ok")


async def _allow(request: Request) -> Response:
    """Answer that everything is allowed: this server has no accounts."""
    await request.body()
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {},
    }
    status = {"allowed": True, "reason": "the embedded cluster allows everything"}
    return JSONResponse(review | {"status": status}, status_code=_CREATED)
