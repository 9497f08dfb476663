"""An event that does nothing but parse and create one pool."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import functions_framework
from flask import Response

from shared.core.messages import parse_message
from shared.edges.structured_logs import start_logging
from shared.environment import read_settings
from shared.push import parse_push
from shared.wiring import build_ports

if TYPE_CHECKING:
    from flask import Request

BODY = json.loads(Path(__file__).with_name("node_pool.json").read_text(encoding="utf-8"))
start_logging("provision")
PORTS = build_ports(read_settings(os.environ))


@functions_framework.http
def provision(request: Request) -> Response:
    """Create one pool."""
    push = parse_push(request.get_data(cache=False))
    event = parse_message(push.message.data, push.message.attributes)
    PORTS.pools.create(event.cluster, BODY)
    return Response("", status=200)
