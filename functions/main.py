"""Entry points of the Cloud Functions: `provision`, `collect`, `settle` and `sweep`.

Pub/Sub calls the first three, Cloud Scheduler the last. They are HTTP functions, not CloudEvent
functions: the framework's reading of a push drops the delivery attempt and answers 400 to messages
without data, and a CloudEvent function cannot answer 503 (docs/decisions/0004-http-functions.md).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import functions_framework
from flask import Response, jsonify

from shared.deliver import deliver, deliver_sweep
from shared.edges.structured_logs import start_logging
from shared.wiring import check_settings, get_ports, open_ports

if TYPE_CHECKING:
    from flask import Request

    from shared.answer import Answer

start_logging(os.environ.get("K_SERVICE") or os.environ.get("FUNCTION_TARGET") or "functions")
# Parsed when the instance starts: a wrong setting stops the deployment, not the first event.
check_settings()
# gunicorn imports this module once and forks its workers, which must not share a connection. So the
# imports above are paid once, and each worker opens its own clients before its first event.
os.register_at_fork(after_in_child=open_ports)


@functions_framework.http
def provision(request: Request) -> Response:
    """Answer a push about an unschedulable leader pod: its slice gets a node pool, or a reason."""
    return _respond(deliver("provision", request.get_data(cache=False), get_ports()))


@functions_framework.http
def collect(request: Request) -> Response:
    """Answer a push about a workload that is over: its node pools are deleted."""
    return _respond(deliver("collect", request.get_data(cache=False), get_ports()))


@functions_framework.http
def settle(request: Request) -> Response:
    """Answer a push about a node pool operation that has ended: the slice that waits goes on."""
    return _respond(deliver("settle", request.get_data(cache=False), get_ports()))


@functions_framework.http
def sweep(_request: Request) -> Response:
    """Answer the scheduler: look at every pool and every waiting leader once."""
    answer, counts = deliver_sweep(get_ports())
    response: Response = jsonify(counts)
    response.status_code = answer.status
    return response


def _respond(answer: Answer) -> Response:
    headers = {}
    if answer.retry_after_seconds is not None:
        headers["Retry-After"] = str(answer.retry_after_seconds)
    return Response("", status=answer.status, headers=headers)
