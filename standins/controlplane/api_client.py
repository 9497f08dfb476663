"""The HTTP client of a control plane and of the tests that run on it.

A refusal raises `httpx.HTTPStatusError`, whose text holds the request and the server's answer. A
server that does not answer raises `httpx.TransportError`.
"""

from http import HTTPStatus
from pathlib import Path

import httpx

from standins.processes.kubeconfig import open_client

APPLY = {"Content-Type": "application/apply-patch+yaml"}
MERGE = {"Content-Type": "application/merge-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
_TEXT_MAX = 2_000


def open_api(kubeconfig: Path, *, timeout_seconds: float = 10.0) -> httpx.Client:
    """Return a client with the rights of a kubeconfig's user; the caller closes it.

    Raises KubeconfigError: the kubeconfig cannot be used.
    """
    client = open_client(kubeconfig, timeout_seconds=timeout_seconds)
    client.event_hooks = {"response": [_raise_refusal]}
    return client


def exists(api: httpx.Client, path: str) -> bool:
    """Return whether there is something at a path.

    Raises httpx.HTTPError: the server did not answer, or refused for another reason.
    """
    try:
        api.get(path)
    except httpx.HTTPStatusError as error:
        if is_refusal(error, HTTPStatus.NOT_FOUND):
            return False
        raise
    return True


def is_refusal(error: httpx.HTTPError, status: HTTPStatus) -> bool:
    """Return whether the server answered with this status."""
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code == status


def _raise_refusal(response: httpx.Response) -> None:
    if response.is_success:
        return
    response.read()
    request = response.request
    text = f"{request.method} {request.url.path}: {response.status_code}: {response.text[:_TEXT_MAX]}"
    raise httpx.HTTPStatusError(text, request=request, response=response)
