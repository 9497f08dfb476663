"""All other REST APIs of Google, as far as their discovery documents tell: what is made is there.

A resource is created once, found by its name, listed, changed, deleted, and has an IAM policy; a
field that its schema does not have is refused. Operations are done at once. Nothing has rights,
quotas or delays, and no resource needs another one.

An API is served below ``/apis/NAME/``; gcloud gets there by
``CLOUDSDK_API_ENDPOINT_OVERRIDES_NAME=http://127.0.0.1:PORT/apis/NAME/``.
"""

import base64
import hashlib
import itertools
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from standins.google.api import read_object
from standins.google.discovery import Document, Documents, Json, Method
from standins.google.errors import ApiError, Code, error_response, json_response

ROOT = "/apis/"
ROUTES = ("/apis/{path:path}", "/upload/{path:path}", "/download/{path:path}")
_VERSION = re.compile(r"/?(v\d+\w*)/")
_CUSTOM = re.compile(r":\w+$|/iam$|/iam/testPermissions$")
_STATES = {"pause": "PAUSED", "resume": "ENABLED", "enable": "ENABLED", "disable": "DISABLED"}


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as its method reads it."""

    method: Method
    path: str  # below the API, without a custom verb
    names: tuple[str, ...]
    query: dict[str, str]
    body: Json

    @property
    def document(self) -> Document:
        """The API."""
        return self.method.document


class Generic:
    """What has been made in all APIs, and the answers about it."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self.resources: dict[str, dict[str, Json]] = {}
        """By API and path."""
        self._policies: dict[tuple[str, str], Json] = {}
        self._contents: dict[str, bytes] = {}
        """Of storage's objects, by their path."""
        self._numbers = itertools.count(1)
        self._verbs: dict[str, Callable[[Call], Json]] = {
            **dict.fromkeys(("create", "insert"), self._create),
            **dict.fromkeys(("get", "getProject"), self._find),
            **dict.fromkeys(("list", "search"), self._list),
            **dict.fromkeys(("patch", "update", "replaceService"), self._update),
            "delete": self._delete,
            "getIamPolicy": self._get_policy,
            "setIamPolicy": self._set_policy,
            "testIamPermissions": lambda call: {"permissions": call.body.get("permissions", [])},
            "batchEnable": self._enable_services,
            "batchGet": self._list,
        }

    async def respond(self, request: Request) -> Response:
        """Answer one request."""
        raw = request.scope.get("raw_path", request.url.path.encode()).decode().partition("?")[0]
        name, _, path = raw.removeprefix(ROOT).partition("/")
        try:
            if "/upload/" in raw:
                return await self._upload(raw, request)
            if request.query_params.get("alt") == "media":
                return Response(self._read_content(unquote(raw)))
            document = self._documents.find(name, path)
            method, names = document.match(request.method, path)
            body = read_object(await request.body())
            document.check(method.request, body)
            place = _CUSTOM.sub("", unquote(path.removeprefix(document.data["servicePath"])))
            call = Call(method, place, tuple(map(unquote, names)), dict(request.query_params), body)
            return json_response(self._verbs.get(method.verb, self._act)(call))
        except ApiError as error:
            return error_response(error, listed=True)

    def _kept(self, call: Call) -> dict[str, Json]:
        return self.resources.setdefault(call.document.name, {})

    def _create(self, call: Call) -> Json:
        if call.method.data["httpMethod"] == "PUT":  # the path has the name
            body, path, name = call.body, call.path, call.names[-1]
        else:
            body, name = _split_body(call)
            path = f"{call.path}/{name}"
        kept = self._kept(call)
        if path in kept and not kept[path].get("deleted"):
            raise ApiError(Code.ALREADY_EXISTS, f"Resource '{name}' already exists")
        kept[path] = {**body, **self._describe(call, path, name)}
        return self._answer(call, path)

    def _describe(self, call: Call, path: str, name: str) -> Json:
        """Return the fields that only Google writes, as far as the resource has them."""
        properties = call.document.schemas.get(call.method.resource, {}).get("properties", {})
        now, number = datetime.now(UTC).isoformat().replace("+00:00", "Z"), next(self._numbers)
        base = call.document.data["baseUrl"]
        rest = bool(call.document.data["servicePath"])  # of the older APIs, which name things shortly
        fields: Json = {
            "name": name if rest else _VERSION.sub("", path, count=1),
            "etag": base64.b64encode(str(number).encode()).decode(),
            "createTime": now,
            "timeCreated": now,
            "creationTimestamp": now,
            "selfLink": f"{base}{path}",
            "state": "ENABLED" if call.document.name == "cloudscheduler" else "ACTIVE",
            "uniqueId": str(10**20 + number),
            "metageneration": "1",
        }
        if call.method.resource == "ServiceAccount":
            fields |= {"email": name, "projectId": call.names[0]}
        return {key: value for key, value in fields.items() if key in properties}

    def _answer(self, call: Call, path: str) -> Json:
        """Return a resource, or the operation that was about it."""
        resource = self._kept(call).get(path, {})
        if call.method.response != "Operation":
            return resource
        name = f"operation-{next(self._numbers)}"
        if "targetLink" in call.document.schemas["Operation"].get("properties", {}):
            link = call.document.data["baseUrl"] + path
            place = re.sub(r"(global|regions/[^/]+|zones/[^/]+)/.*", rf"\1/operations/{name}", path)
            operation = {"name": name, "status": "DONE", "targetLink": link, "progress": 100}
            operation["operationType"] = call.method.verb
            operation["selfLink"] = call.document.data["baseUrl"] + place
        else:
            version = _VERSION.match(path)
            prefix = f"{version[1]}/" if version else ""
            scope = re.match(r"projects/[^/]+(?:/locations/[^/]+)?/", path.removeprefix(prefix))
            place = f"{prefix}{scope[0] if scope else ''}operations/{name}"
            operation = {"name": place.removeprefix(prefix), "done": True, "response": resource}
        self._kept(call)[place] = operation
        return operation

    def _find(self, call: Call) -> Json:
        """Return what is there. Raises ApiError: nothing is."""
        kept, path = self._kept(call), _name_account(call.path)
        if path not in kept and call.method.resource == "Project":
            project = call.names[-1]
            number = 10**11 + zlib.crc32(project.encode())
            kept[path] = {"projectId": project, "projectNumber": str(number), "name": project}
        if path not in kept and call.document.name == "serviceusage":
            return {"name": _VERSION.sub("", path, count=1), "state": "DISABLED"}
        if path not in kept:
            raise ApiError(Code.NOT_FOUND, f"Resource '{_VERSION.sub('', path, count=1)}' was not found")
        return kept[path]

    def _list(self, call: Call) -> Json:
        field = call.method.items
        begin, wanted, divider = call.path.rstrip("/") + "/", call.query.get("prefix", ""), "/"
        deep = call.document.name == "storage" and not call.query.get("delimiter")
        items, prefixes = [], set()
        for path, each in sorted(self._kept(call).items()):
            if not path.startswith(begin + wanted) or each.get("deleted"):
                continue
            below, more, _ = path[len(begin + wanted) :].partition(divider)
            if deep or not more:
                items.append(each)
            elif call.document.name == "storage":
                prefixes.add(wanted + below + divider)
        return {field: items, "prefixes": sorted(prefixes)} if prefixes else {field: items}

    def _update(self, call: Call) -> Json:
        resource = self._find(call)
        mask = call.query.get("updateMask", "")
        fields = {each.partition(".")[0] for each in mask.split(",")} if mask else call.body.keys()
        resource |= {key: call.body[key] for key in fields if key in call.body}
        return self._answer(call, _name_account(call.path))

    def _delete(self, call: Call) -> Json:
        resource = self._find(call)
        if "deleted" in call.document.schemas.get(call.method.resource, {}).get("properties", {}):
            resource["deleted"] = True  # a role keeps its id for a while
            return resource
        path = _name_account(call.path)
        del self._kept(call)[path]
        self._contents.pop(path, None)
        return self._answer(call, path)

    def _get_policy(self, call: Call) -> Json:
        return self._policies.get((call.document.name, _name_account(call.path)), {"etag": "AAAA", "bindings": []})

    def _set_policy(self, call: Call) -> Json:
        policy = call.body.get("policy", call.body)
        etag = base64.b64encode(str(next(self._numbers)).encode()).decode()
        self._policies[call.document.name, _name_account(call.path)] = {**policy, "etag": etag}
        return self._get_policy(call)

    def _enable_services(self, call: Call) -> Json:
        for service in call.body.get("serviceIds", []):
            self._set_service(call, service)
        return self._answer(call, call.path)

    def _set_service(self, call: Call, service: str, state: str = "ENABLED") -> None:
        collection = call.path.partition("/services")[0] + "/services"
        name = _VERSION.sub("", f"{collection}/{service}", count=1)
        self._kept(call)[f"{collection}/{service}"] = {"name": name, "state": state, "config": {"name": service}}

    def _act(self, call: Call) -> Json:
        """Perform a verb of some resource's own: one that sets its state, or nothing."""
        if call.document.name == "serviceusage" and call.method.verb in _STATES:
            self._set_service(call, call.names[-1], _STATES[call.method.verb])
            return self._answer(call, call.path)
        if call.method.response == "Operation":
            return self._answer(call, call.path)
        if call.method.data["httpMethod"] == "GET":
            return self._find(call) if call.path in self._kept(call) else {}
        if call.method.verb in _STATES:
            self._find(call)["state"] = _STATES[call.method.verb]
        if call.method.verb == "undelete":
            del self._find(call)["deleted"]
        return self._kept(call).get(_name_account(call.path), {})

    async def _upload(self, raw: str, request: Request) -> Response:
        """Take an object of storage, in one request with its metadata or without."""
        bucket = re.search(r"/b/([^/]+)/o", raw)
        body, query = await request.body(), request.query_params
        metadata: Json = {"bucket": unquote(bucket[1]) if bucket else "", "name": query.get("name", "")}
        if query.get("uploadType") != "multipart":
            return self._keep_object(metadata, body)
        mark = b"--" + request.headers["content-type"].partition("boundary=")[2].strip("\"'").encode()
        texts = [part.partition(b"\n\n")[2] for part in body.replace(b"\r\n", b"\n").split(mark)[1:3]]
        return self._keep_object(metadata | json.loads(texts[0]), texts[1].removesuffix(b"\n"))

    def _keep_object(self, metadata: Json, content: bytes) -> Response:
        kept = self.resources.setdefault("storage", {})
        path = f"b/{metadata['bucket']}/o/{metadata['name']}"
        if f"b/{metadata['bucket']}" not in kept:
            raise ApiError(Code.NOT_FOUND, "The specified bucket does not exist.")
        number = str(next(self._numbers))
        resource: Json = {
            **metadata,
            "generation": number,
            "metageneration": "1",
            "size": str(len(content)),
            "md5Hash": base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode(),
            "mediaLink": f"/download/storage/v1/{quote(path)}?alt=media",
            "timeCreated": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        }
        kept[path], self._contents[path] = resource, content
        return json_response(resource)

    def _read_content(self, path: str) -> bytes:
        place = path.partition("storage/v1/")[2] or path
        if place not in self._contents:
            raise ApiError(Code.NOT_FOUND, f"No such object: {place}")
        return self._contents[place]


def _split_body(call: Call) -> tuple[Json, str]:
    """Return the resource that a request carries, and the last part of its name."""
    if call.method.request.startswith("Create") and call.method.request != call.method.resource:
        return _unwrap_body(call)
    ids = (value for key, value in call.query.items() if key.endswith("Id") and key != "requestId")
    name = next(ids, "") or str(call.body.get("name", "")).rpartition("/")[2]
    if not name:
        raise ApiError(Code.INVALID_ARGUMENT, "name: is required")
    return call.body, name


def _unwrap_body(call: Call) -> tuple[Json, str]:
    """Return the resource and the name of a request that has them side by side."""
    own = next((value for value in call.body.values() if isinstance(value, dict)), {})
    name = next((str(value) for key, value in call.body.items() if key.endswith("Id")), "")
    if call.method.resource == "ServiceAccount":
        name = f"{name}@{call.names[0]}.iam.gserviceaccount.com"
    return own, name


def _name_account(path: str) -> str:
    """Return the path of a service account without the wildcard for its project."""
    account = re.search(r"projects/-/serviceAccounts/[^@/]+@([^.]+)\.", path)
    return path.replace("projects/-/", f"projects/{account[1]}/") if account else path
