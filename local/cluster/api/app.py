"""The ASGI application: reads a request, calls the verb, writes the answer. No rules of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from local.cluster.api.discovery import document
from local.cluster.api.lists import Lister, read_selection
from local.cluster.api.paths import Target, read_path
from local.cluster.api.protobuf import MEDIA_TYPE, read_protobuf
from local.cluster.api.representations import Form, encoded, encoded_list, wanted_form
from local.cluster.api.tables import TableWriter
from local.cluster.api.verbs import CREATED, OK, Verbs
from local.cluster.api.watches import Watch, WatchDropped, read_options
from local.cluster.errors import ApiError, bad_request, method_not_allowed
from local.cluster.store.stored import Stored, encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from local.cluster.cluster import Cluster

Json = dict[str, Any]

_JSON = "application/json"
_READ_ONLY = {"GET", "HEAD"}
_ACCESS_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Api:
    """The HTTP face of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._verbs = Verbs(cluster.registry)
        self._lister = Lister(cluster.store)
        self._watches: set[Watch] = set()
        self._expired_as_status = False

    def application(self) -> ASGIApp:
        """Return the ASGI application."""
        every = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        routes = [
            Route("/healthz", _healthy),
            Route("/livez", _healthy),
            Route("/readyz", _healthy),
            Route("/admin/disconnect", self._disconnect, methods=["POST"]),
            Route("/admin/compact", self._compact, methods=["POST"]),
            Route("/admin/state", self._state),
            Route(_ACCESS_REVIEW, _allow, methods=["POST"]),
            Route("/{path:path}", self._serve, methods=every),
        ]
        return _BreakingOff(Starlette(routes=routes))

    def end_watches(self, *, abruptly: bool = False) -> int:
        """End all watches, breaking them off if asked to; return how many there were."""
        watches = tuple(self._watches)
        for watch in watches:
            watch.end(abruptly=abruptly)
        return len(watches)

    async def _disconnect(self, request: Request) -> Response:
        clean = request.query_params.get("clean", "false") == "true"
        return JSONResponse({"dropped": self.end_watches(abruptly=not clean)})

    async def _compact(self, request: Request) -> Response:
        answer = request.query_params.get("answer", "event")
        if answer not in {"event", "status"}:
            message = f'invalid value for answer: "{answer}"; valid: event, status'
            return JSONResponse(bad_request(message).status(), status_code=400)
        self._expired_as_status = answer == "status"
        return JSONResponse({"compactedTo": self._cluster.store.compact()})

    async def _state(self, request: Request) -> Response:
        del request
        return JSONResponse({"resourceVersion": self._cluster.store.revision, "watches": len(self._watches)})

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
        return self._change(target, request, _as_json(request, body))

    def _read(self, target: Target, request: Request) -> Response:
        query = request.query_params
        form = wanted_form(request.headers.get("accept", ""))
        if target.subresource == "log":
            return Response(self._verbs.log(target, query), media_type="text/plain")
        if target.name:
            return self._object(target, request, self._verbs.get(target), OK)
        selection = read_selection(target.kind, target.namespace, query)
        if query.get("watch", "false").lower() in {"true", "1"}:
            return self._watch(request, target, form)
        page = self._lister.page(selection, query)
        if form is Form.TABLE:
            writer = TableWriter(target.kind, include=query.get("includeObject", "Metadata"))
            return _json(writer.rows(page.items, page.metadata), OK)
        return _json(encoded_list(target.kind, page.items, form, page.metadata), OK)

    def _watch(self, request: Request, target: Target, form: Form) -> Response:
        query = request.query_params
        selection = read_selection(target.kind, target.namespace, query)
        options = read_options(query)
        if self._expired_as_status and not options.initial_events:
            self._cluster.store.changes_since(target.kind, options.version)
        watch = Watch(self._cluster.store, selection, options, form)
        return StreamingResponse(self._stream(watch), media_type=_JSON)

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
            return self._object(target, request, self._verbs.create(target, query, body), CREATED)
        if verb in {("PUT", True, ""), ("PUT", True, "status")}:
            return self._object(target, request, self._verbs.replace(target, query, body), OK)
        if verb in {("PATCH", True, ""), ("PATCH", True, "status")}:
            stored, code = self._verbs.patch(target, query, request.headers.get("content-type", ""), body)
            return self._object(target, request, stored, code)
        if verb == ("DELETE", True, ""):
            last = self._verbs.delete(target, query, body)
            return self._object(target, request, last, OK) if isinstance(last, Stored) else _json(last, OK)
        if verb == ("DELETE", False, ""):
            items = self._verbs.delete_collection(target, query, body)
            metadata = {"resourceVersion": str(self._cluster.store.revision)}
            return _json(encoded_list(target.kind, items, Form.OBJECT, metadata), OK)
        return self._change_subresource(target, request, body)

    def _change_subresource(self, target: Target, request: Request, body: bytes) -> Response:
        verb = (request.method, target.subresource)
        if verb == ("POST", "binding"):
            return _json(self._verbs.bind(target, body), CREATED)
        if verb == ("POST", "eviction"):
            return _json(self._verbs.evict(target, body), CREATED)
        if verb == ("PUT", "finalize"):
            return self._object(target, request, self._verbs.finalize(target, body), OK)
        raise method_not_allowed()

    def _object(self, target: Target, request: Request, stored: Stored, code: int) -> Response:
        form = wanted_form(request.headers.get("accept", ""))
        if form is Form.TABLE:
            include = request.query_params.get("includeObject", "Metadata")
            metadata = {"resourceVersion": str(stored.version)}
            return _json(TableWriter(target.kind, include=include).rows([stored], metadata), code)
        return _json(encoded(target.kind, stored, form), code)


class _BreakingOff:
    """Lets a dropped watch end its response in the middle: the server then closes the connection."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._inner(scope, receive, send)
        except* WatchDropped:
            pass


def _json(body: bytes, code: int) -> Response:
    return Response(body, status_code=code, media_type=_JSON)


def _discovery(path: str, accept: str, found: Json) -> Response:
    if path.rstrip("/") == "/openapi/v2" and "protobuf" in accept and _JSON not in accept:
        return Response(status_code=406)
    return _json(encode(found), OK)


def _as_json(request: Request, body: bytes) -> bytes:
    media_type = request.headers.get("content-type", "").split(";")[0].strip()
    return encode(read_protobuf(body)) if body and media_type == MEDIA_TYPE else body


async def _healthy(request: Request) -> Response:
    del request
    return PlainTextResponse("ok")


async def _allow(request: Request) -> Response:
    """Answer that everything is allowed: this server knows no accounts, so the question is not even read."""
    await request.body()
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {},
        "status": {"allowed": True, "reason": "the embedded cluster allows everything"},
    }
    return JSONResponse(review, status_code=CREATED)
