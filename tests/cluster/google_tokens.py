"""Access tokens of Google accounts: issues them, and says whose one is.

GKE's API server asks Google by a TokenReview, and gets the account's e-mail address as the user's
name. A token that was asked for without the scope `userinfo.email` gives the account's number only
(https://cloud.google.com/kubernetes-engine/docs/how-to/role-based-access-control#forbidden_error_for_service_accounts_on_vm_instances).
"""

import json
import secrets
from collections.abc import Collection

from standins.processes.local_answers import Answer, Asked

_EMAIL = "https://www.googleapis.com/auth/userinfo.email"
_OK = 200


class GoogleTokens:
    """All tokens that were issued; each is random, so only its holder can show it."""

    def __init__(self) -> None:
        self._users: dict[str, str] = {}

    def issue(self, account: str, number: str, scopes: Collection[str]) -> str:
        """Return a new token for the scopes that were asked for."""
        token = secrets.token_urlsafe(24)
        self._users[token] = account if _EMAIL in scopes else number
        return token

    def review(self, asked: Asked) -> Answer:
        """Return the TokenReview of an API server, answered.

        Form: https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/.
        """
        question = json.loads(asked.body)
        user = self._users.get(question["spec"].get("token", ""))
        status = {"authenticated": True, "user": {"username": user}} if user else {"authenticated": False}
        kind = {"apiVersion": question["apiVersion"], "kind": "TokenReview"}
        return Answer(_OK, json.dumps({**kind, "status": status}).encode())
