"""A small server with fixed answers, for the APIs that the preflight asks."""

import json
from typing import Any

from standins.processes.local_answers import Answer, Asked, LocalAnswers


class AnsweringApis(LocalAnswers):
    """Answers by path, or by the constraint that a question about a policy names."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.answers: dict[str, Any] = {}
        """What is returned; an int is the status of a refusal. Unknown paths are 404."""
        self.asked: list[str] = []

    def _answer(self, asked: Asked) -> Answer:
        name = json.loads(asked.body or b"{}").get("constraint") or asked.path.partition("?")[0]
        self.asked.append(name)
        found = self.answers.get(name, 404)
        if isinstance(found, int):
            return Answer(found, json.dumps({"error": {"code": found, "message": f"{name}: refused"}}).encode())
        return Answer(200, json.dumps(found).encode())
