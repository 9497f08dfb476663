"""Answers in place of connections, for the clients of Google's APIs and of Kubernetes."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import requests
import urllib3
from requests.adapters import HTTPAdapter

from shared.edges.gke import GkePools
from shared.edges.google import GoogleAccount, OnceInTime
from shared.settings import Credentials

Pools = TypeVar("Pools", bound=GkePools)


@dataclass(frozen=True, slots=True)
class Canned:
    """One HTTP answer."""

    body: bytes = b"{}"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class CannedHttp:
    """Stands for urllib3's pools: each request is answered by a function, and remembered."""

    answer: Callable[[str, str], Canned]
    """Takes the method and the URL or path."""
    sent: list[tuple[str, str, bytes | None]] = field(default_factory=list)

    def request(self, method: str, url: str, *, body: bytes | None = None, **_options: Any) -> Any:
        """Answer as `urllib3.PoolManager` does."""
        self.sent.append((method, url, body))
        found = self.answer(method, url)
        return urllib3.HTTPResponse(
            io.BytesIO(found.body), status=found.status, headers=dict(found.headers), preload_content=False
        )

    urlopen = request


class CannedAdapter(HTTPAdapter):
    """The same in place of the connections of requests, which google-auth's sessions use."""

    _http: CannedHttp

    def send(self, request: requests.PreparedRequest, *_positional: Any, **_options: Any) -> requests.Response:
        """Answer as the network does."""
        raw = self._http.request(str(request.method), str(request.url), body=request.body)  # type: ignore[arg-type]
        return self.build_response(request, raw)


class CannedOnce(OnceInTime, CannedAdapter):
    """The deadline of the product over canned answers."""

    def __init__(self, http: CannedHttp) -> None:
        super().__init__()
        self._http = http


def open_pools(http: CannedHttp, edge: type[Pools]) -> Pools:
    """Return an edge of GKE over canned answers."""
    pools = edge("https://canned", GoogleAccount(Credentials.ANONYMOUS))
    pools.open()
    transport: Any = pools._client.transport
    for session in (transport._session, pools._compute.session):
        session.mount("https://", CannedOnce(http))
    return pools
