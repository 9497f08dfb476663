"""Cloud Run's front end: it lets a call through only with a token of an account that may call.

The audience is the service's own address, the signature is the issuer's, and the account has
``roles/run.invoker`` (https://cloud.google.com/run/docs/authenticating/service-to-service).
"""

import base64
from collections.abc import Callable
from typing import Any

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt
from google.auth.exceptions import GoogleAuthError

from standins.processes.local_answers import Answer, Asked

_UNAUTHORIZED, _FORBIDDEN, _UNAVAILABLE = 401, 403, 503
_PASSED_ON = ("content-type", "user-agent", "traceparent", "ce-type", "ce-source", "ce-id")
Keys = dict[str, bytes]


class FrontDoor:
    """What answers at a function's address.

    Args:
        name: The function's.
        audiences: The addresses that a token may be for.
        invokers: The accounts that may call.
        behind: Where the function's process listens.
        find_keys: Returns the public keys of all issuers, in PEM by their ids.
    """

    def __init__(
        self, name: str, *, audiences: set[str], invokers: set[str], behind: str, find_keys: Callable[[], Keys]
    ) -> None:
        self.name = name
        self._audiences, self._invokers, self._behind = sorted(audiences), invokers, behind
        self._find_keys = find_keys
        self.passed = 0
        self.refused: list[str] = []

    def answer(self, asked: Asked) -> Answer:
        """Return the function's answer, or the refusal."""
        headers = {key.lower(): value for key, value in asked.headers.items()}
        try:
            account = self._identify(headers.get("authorization", ""))
        except (GoogleAuthError, ValueError) as error:
            return self._refuse(_UNAUTHORIZED, f"no valid token: {error}")
        if account not in self._invokers:
            return self._refuse(_FORBIDDEN, f"{account} may not call {self.name}")
        told = {key: headers[key] for key in _PASSED_ON if key in headers}
        try:
            got = httpx.post(f"{self._behind}/", content=asked.body, headers=told, timeout=None, trust_env=False)  # noqa: S113 -- the caller has a deadline
        except httpx.HTTPError as error:
            return Answer(_UNAVAILABLE, f"{self.name} does not answer: {error!r}".encode(), "text/plain")
        self.passed += 1
        return Answer(got.status_code, got.content, got.headers.get("content-type", "text/plain"))

    def _identify(self, authorization: str) -> str:
        scheme, _, token = authorization.partition(" ")
        if scheme != "Bearer":
            raise ValueError("there is none")
        decode: Any = jwt.decode  # google-auth has no types
        claims = decode(token, certs=self._find_keys(), audience=self._audiences)
        return str(claims["email"]) if claims.get("email_verified") else ""

    def _refuse(self, status: int, why: str) -> Answer:
        self.refused.append(why)
        return Answer(status, why.encode(), "text/plain")


def read_keys(jwks: dict[str, Any]) -> Keys:
    """Return the keys of a JSON Web Key Set (RFC 7517) in PEM."""
    return {each["kid"]: _to_pem(_number(each["e"]), _number(each["n"])) for each in jwks["keys"]}


def _number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")


def _to_pem(exponent: int, modulus: int) -> bytes:
    return (
        rsa.RSAPublicNumbers(exponent, modulus)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
