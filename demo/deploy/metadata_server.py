"""The metadata server of one function's instances: it says as whom the function runs.

Paths and forms as google-auth asks for them
(https://cloud.google.com/compute/docs/metadata/predefined-metadata-keys).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from demo.deploy.local_answers import Answer, LocalAnswers

if TYPE_CHECKING:
    from demo.deploy.local_answers import Asked

_ACCOUNT = "/computeMetadata/v1/instance/service-accounts/default/"
_OK, _NOT_FOUND = 200, 404


def serve_metadata(account: str, project: str) -> LocalAnswers:
    """Return the server; its token names the account, and no one checks it."""
    token = {"access_token": f"token-of-{account}", "expires_in": 3599, "token_type": "Bearer"}
    known = {
        "/": b"computeMetadata/\n",
        "/computeMetadata/v1/project/project-id": project.encode(),
        "/computeMetadata/v1/universe/universe-domain": b"googleapis.com",
        _ACCOUNT: json.dumps({"aliases": ["default"], "email": account, "scopes": []}).encode(),
        f"{_ACCOUNT}token": json.dumps(token).encode(),
    }

    def answer(asked: Asked) -> Answer:
        found = known.get(asked.path.partition("?")[0])
        if found is None:
            return Answer(_NOT_FOUND)
        # google-auth reads a JSON answer as JSON, and any other as a text.
        return Answer(_OK, found, "application/json" if found.startswith(b"{") else "application/text")

    return LocalAnswers(answer)
