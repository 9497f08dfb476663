"""The metadata server of one function's instances: it says as whom the function runs.

Paths and forms as google-auth asks for them
(https://cloud.google.com/compute/docs/metadata/predefined-metadata-keys).
"""

import json
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from standins.processes.local_answers import Answer, Asked, LocalAnswers

_ACCOUNT = "/computeMetadata/v1/instance/service-accounts/default/"
_OK, _NOT_FOUND = 200, 404


def serve_metadata(account: str, project: str, issue: Callable[[list[str]], str]) -> LocalAnswers:
    """Return the server.

    Args:
        account: The e-mail address of the function's account.
        project: The project's id.
        issue: Returns a token of the account for scopes; without any it is for what instances have
            by default.
    """
    known = {
        "/": b"computeMetadata/\n",
        "/computeMetadata/v1/project/project-id": project.encode(),
        "/computeMetadata/v1/universe/universe-domain": b"googleapis.com",
        _ACCOUNT: json.dumps({"aliases": ["default"], "email": account, "scopes": []}).encode(),
    }

    def answer(asked: Asked) -> Answer:
        url = urlsplit(asked.path)
        found = known.get(url.path)
        if url.path == f"{_ACCOUNT}token":
            scopes = [each for words in parse_qs(url.query).get("scopes", []) for each in words.split(",")]
            token = {"access_token": issue(scopes), "expires_in": 3599, "token_type": "Bearer"}
            found = json.dumps(token).encode()
        if found is None:
            return Answer(_NOT_FOUND)
        # google-auth reads a JSON answer as JSON, and any other as a text.
        return Answer(_OK, found, "application/json" if found.startswith(b"{") else "application/text")

    return LocalAnswers(answer)
