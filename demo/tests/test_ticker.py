"""The ticker of the local stack calls the sweep when it starts, not only after its interval."""

from __future__ import annotations

import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from demo.stack.layout import PROJECT_ROOT


def test_a_new_stack_is_swept_at_once() -> None:
    """`doctor` says bad of a stack without a sweep."""
    called: list[str] = []

    class Sweep(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            called.append(self.headers["User-Agent"])
            self.send_response(200)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Sweep) as server:
        server.timeout = 60
        url = f"http://127.0.0.1:{server.server_port}/"
        words = (sys.executable, "-m", "demo.stack.ticker", f"--url={url}", "--every-seconds=3600")
        with subprocess.Popen(words, cwd=PROJECT_ROOT) as ticker:
            server.handle_request()
            ticker.terminate()

    assert called == ["Google-Cloud-Scheduler"]
    assert ticker.returncode == 0
