"""A Google that gives tokens in each of its ways, and is GKE and a cluster too."""

import json
from typing import Any
from urllib.parse import urlsplit

from standins.kit.local_answers import Answer, Asked, LocalAnswers

LIFETIME_SECONDS = 3599


class FakeGoogle(LocalAnswers):
    """Gives tokens that count up, in each of Google's ways, and is GKE and a cluster too."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.status = 200
        self.body: bytes | None = None
        self.lifetime_seconds = LIFETIME_SECONDS
        self.tokens: list[str] = []
        self.identities: dict[str, str] = {}

    def _answer(self, asked: Asked) -> Answer:
        path = urlsplit(asked.path).path
        if not path.endswith((":generateAccessToken", "/token")):
            return Answer(200, json.dumps(self._find(path, asked)).encode())
        self.tokens.append(asked.path)
        body = json.dumps(self._find(path, asked)).encode()
        return Answer(self.status, body if self.body is None else self.body)

    def _find(self, path: str, asked: Asked) -> dict[str, Any]:
        if path.endswith(":generateAccessToken"):
            assert asked.headers["Authorization"] == "Bearer token-1"
            return {"accessToken": "impersonated", "expireTime": "2999-01-01T00:00:00Z"}
        if path.endswith("/token"):
            issued = "urn:ietf:params:oauth:token-type:access_token"
            given = {"access_token": f"token-{len(self.tokens)}", "issued_token_type": issued}
            return given | {"expires_in": self.lifetime_seconds, "token_type": "Bearer"}
        if path == "/" or path.startswith("/computeMetadata/"):
            return {"email": "functions@p.iam.gserviceaccount.com", "scopes": []}
        self.identities[path] = asked.headers.get("Authorization", "")
        return {"metadata": {"uid": "u-1"}}
