"""A small server with fixed answers, for APIs that the mock of Google Cloud does not have."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.local_http import Answer, LocalServer


class AnsweringApis(LocalServer):
    """Answers by path, or by the constraint that a question about a policy names."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.answers: dict[str, Any] = {}
        """What is returned; an int is the status of a refusal. Unknown paths are 404."""
        self.asked: list[str] = []

    def _answer(self, _method: str, path: str, body: bytes) -> Answer:
        name = json.loads(body or b"{}").get("constraint") or path.partition("?")[0]
        self.asked.append(name)
        found = self.answers.get(name, 404)
        if isinstance(found, int):
            return found, json.dumps({"error": {"code": found, "message": f"{name}: refused"}}).encode()
        return 200, json.dumps(found).encode()
