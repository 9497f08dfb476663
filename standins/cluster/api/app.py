"""The ASGI application: reads a request, calls the verb, writes the answer. No rules of its own."""

from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from standins.cluster.api.discovery import document
from standins.cluster.api.lists import encoded_list, page, read_selection
from standins.cluster.api.patches import media_type
from standins.cluster.api.paths import Target, read_path
from standins.cluster.api.tables import table, wants_table
from standins.cluster.api.verbs import CREATED, OK, Verbs
from standins.cluster.api.watches import Watch, WatchDropped, read_options
from standins.cluster.embedded import Cluster
from standins.cluster.store.errors import ApiError, method_not_allowed
from standins.cluster.store.stored import Stored, encode

Json = dict[str, Any]

_JSON = "application/json"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_OPENAPI = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_READ_ONLY = {"GET", "HEAD"}
_ONLY_STORED = "the embedded cluster stores a {} and does nothing with it; CLUSTER=real does (docs/local-stack.md)"
"""kubectl prints it as a warning: https://kubernetes.io/blog/2020/09/03/warnings/."""
_ACCESS_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Api:
    """The HTTP face of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._verbs = Verbs(cluster.registry)
        self._watches: set[Watch] = set()

    def application(self) -> ASGIApp:
        """Return the ASGI application."""
        every = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        routes = [
            Route("/healthz", _healthy),
            Route("/livez", _healthy),
            Route("/readyz", _healthy),
            Route("/admin/disconnect", self._disconnect, methods=["POST"]),
            Route("/admin/compact", self._compact, methods=["POST"]),
            Route(_ACCESS_REVIEW, _allow, methods=["POST"]),
            Route("/{path:path}", self._serve, methods=every),
        ]
        return _BreakingOff(Starlette(routes=routes))

    def end_watches(self, *, abruptly: bool = False) -> int:
        """End all watches, or break them off; return how many there were."""
        watches = tuple(self._watches)
        for watch in watches:
            watch.end(abruptly=abruptly)
        return len(watches)

    async def _disconnect(self, request: Request) -> Response:
        del request
        return JSONResponse({"dropped": self.end_watches(abruptly=True)})

    async def _compact(self, request: Request) -> Response:
        del request
        return JSONResponse({"compactedTo": self._cluster.store.compact()})

    async def _serve(self, request: Request) -> Response:
        body = b"" if request.method in _READ_ONLY else await request.body()
        try:
            return self._answer(request, body)
        except ApiError as error:
            return _json(encode(error.status()), error.code)

    def _answer(self, request: Request, body: bytes) -> Response:
        path = request.url.path
        if request.method in _READ_ONLY:
            found = document(path)
            if found is not None:
                return _discovery(path, request.headers.get("accept", ""), found)
        target = read_path(path)
        if request.method in _READ_ONLY:
            return self._read(target, request)
        _refuse_protobuf(request)
        return self._change(target, request, body)

    def _read(self, target: Target, request: Request) -> Response:
        query = request.query_params
        if target.name:
            return self._object(request, target, self._verbs.get(target))
        selection = read_selection(target.kind, target.namespace, query)
        if query.get("watch", "false").lower() in {"true", "1"}:
            options = read_options(query)
            watch = Watch(self._cluster.store, selection, options, as_table=_as_table(request))
            return StreamingResponse(self._stream(watch), media_type=_JSON)
        found = page(self._cluster.store, selection, query)
        write = table if _as_table(request) else encoded_list
        return _json(write(target.kind, found.items, found.metadata))

    async def _stream(self, watch: Watch) -> AsyncIterator[bytes]:
        self._watches.add(watch)
        try:
            async for chunk in watch.stream():
                yield chunk
        finally:
            self._watches.discard(watch)

    def _change(self, target: Target, request: Request, body: bytes) -> Response:
        query = request.query_params
        verb = (request.method, bool(target.name), target.subresource)
        if verb == ("POST", False, ""):
            answer = self._object(request, target, self._verbs.create(target, query, body), CREATED)
            if target.kind.only_stored:
                answer.headers["Warning"] = f'299 - "{_ONLY_STORED.format(target.kind.kind)}"'
            return answer
        if verb in {("PUT", True, ""), ("PUT", True, "status")}:
            return self._object(request, target, self._verbs.replace(target, query, body))
        if verb in {("PATCH", True, ""), ("PATCH", True, "status")}:
            content_type = request.headers.get("content-type", "")
            return self._object(request, target, self._verbs.patch(target, query, content_type, body))
        if verb == ("DELETE", True, ""):
            last = self._verbs.delete(target, query, body)
            return self._object(request, target, last, OK) if isinstance(last, Stored) else _json(last)
        if verb == ("DELETE", False, ""):
            items = self._verbs.delete_collection(target, query, body)
            metadata = {"resourceVersion": str(self._cluster.store.revision)}
            return _json(encoded_list(target.kind, items, metadata))
        raise method_not_allowed()

    def _object(self, request: Request, target: Target, stored: Stored, code: int = OK) -> Response:
        if _as_table(request):
            return _json(table(target.kind, [stored], {"resourceVersion": str(stored.version)}), code)
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


def _json(body: bytes, code: int = OK) -> Response:
    return Response(body, status_code=code, media_type=_JSON)


def _discovery(path: str, accept: str, found: Json) -> Response:
    if path.rstrip("/") == "/openapi/v2" and "protobuf" in accept and _JSON not in accept:
        return Response(media_type=_OPENAPI)  # no types: kubectl then says which kind is not there
    return _json(encode(found))


def _as_table(request: Request) -> bool:
    return wants_table(request.headers.get("accept", ""))


def _refuse_protobuf(request: Request) -> None:
    """Refuse what `kubectl create KIND NAME` sends; `kubectl create -f FILE` sends JSON."""
    if media_type(request.headers.get("content-type", "")) == _PROTOBUF:
        why = f"{_PROTOBUF}: the embedded cluster reads JSON and YAML. Use kubectl create -f FILE."
        raise ApiError(415, "UnsupportedMediaType", why)


async def _healthy(request: Request) -> Response:
    del request
    return PlainTextResponse("ok")


async def _allow(request: Request) -> Response:
    """Answer that everything is allowed: this server has no accounts."""
    await request.body()
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {},
        "status": {"allowed": True, "reason": "the embedded cluster allows everything"},
    }
    return JSONResponse(review, status_code=CREATED)
