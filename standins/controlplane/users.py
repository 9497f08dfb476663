"""Who may talk to the API server, and the table of their tokens.

Controllers use the user names that Kubernetes grants rights to by default
(https://kubernetes.io/docs/reference/access-authn-authz/rbac/#core-component-roles).
"""

import secrets

ADMIN = "admin"
CONTROLLERS = "controller-manager"
SCHEDULER = "scheduler"
_GROUP = {ADMIN: "system:masters"}
_NAME = {CONTROLLERS: "system:kube-controller-manager", SCHEDULER: "system:kube-scheduler"}
USERS = (ADMIN, CONTROLLERS, SCHEDULER)


def make_tokens() -> dict[str, str]:
    """Return a new random token for every user."""
    return {user: secrets.token_urlsafe(24) for user in USERS}


def render_token_table(tokens: dict[str, str]) -> str:
    """Return the API server's file of static tokens.

    Format:
    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#static-token-file.
    """
    rows = []
    for user, token in tokens.items():
        row = f"{token},{_NAME.get(user, user)},{user}"
        rows.append(f'{row},"{_GROUP[user]}"' if user in _GROUP else row)
    return "\n".join(rows) + "\n"
