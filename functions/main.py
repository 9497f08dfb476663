"""Entry points of the Cloud Functions: `provision`, which adds, and `collect`, which takes away.

Pub/Sub calls both with messages about workloads and with the ends of GKE's operations, and Cloud
Scheduler calls both each minute. They are HTTP functions, not CloudEvent functions: the framework's
reading of a push drops the delivery attempt and answers 400 to messages without data, and a
CloudEvent function cannot answer 503 (docs/decisions/clients.md).
"""

from __future__ import annotations

import os

import functions_framework
from flask import Request, Response, jsonify, make_response

from shared import deliver
from shared.edges.process import start_logging
from shared.engine.outside import Role

start_logging(os.environ.get("K_SERVICE") or os.environ.get("FUNCTION_TARGET") or "functions")
# Parsed when the instance starts: a wrong setting stops the deployment, not the first message.
# Nothing is opened: gunicorn imports this module once and forks its workers, which must not share a
# connection. Each opens its own with its first request, which is a tick within a minute.
deliver.check_settings()


@functions_framework.http
def provision(request: Request) -> Response:
    """Give waiting workloads the node pools that they lack, or a reason."""
    return _answer(Role.PROVISION, request)


@functions_framework.http
def collect(request: Request) -> Response:
    """Take away the node pools that no workload needs."""
    return _answer(Role.COLLECT, request)


def _answer(role: Role, request: Request) -> Response:
    if request.method != "POST":
        return Response("only POST is answered here", status=405, headers={"Allow": "POST"})
    ports = deliver.get_process(role)
    if request.path == deliver.TICK_PATH:
        answer, counts = deliver.deliver_tick(role, request.args.get("cluster", ""), ports)
        return make_response(jsonify(counts), answer.status)
    body, headers = request.get_data(cache=False), dict(request.headers)
    return Response(status=deliver.deliver(role, body, ports, headers).status)
