"""Who may talk to the API server, and the kubeconfig files by which they do.

Controllers use the user names that Kubernetes grants rights to by default
(https://kubernetes.io/docs/reference/access-authn-authz/rbac/#core-component-roles).
"""

from __future__ import annotations

import base64
import json
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

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

    Format: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#static-token-file.
    """
    rows = []
    for user, token in tokens.items():
        row = f"{token},{_NAME.get(user, user)},{user}"
        rows.append(f'{row},"{_GROUP[user]}"' if user in _GROUP else row)
    return "\n".join(rows) + "\n"


def render_kubeconfig(url: str, authority: bytes, token: str, *, namespace: str = "default") -> str:
    """Return a kubeconfig (JSON, which is YAML) that kubectl and the client libraries accept."""
    name = "tpu-provisioner-local"
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "current-context": name,
    }
    return json.dumps(config, indent=2) + "\n"


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read, so that a reader sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    draft.touch(mode=0o600)
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
