"""The OIDC tokens of push requests, signed with a key that lives as long as the process.

Claims as of the real service, see
https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions; the public key is served as
JWKS, so that a handler under test can verify for real.
"""

import base64
import hashlib
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import crypt, jwt

ISSUER = "https://accounts.google.com"
LIFETIME_SECONDS = 3_600
RENEW_SECONDS = 1_800


class TokenSigner:
    """Sign tokens for service accounts; `clock` returns Unix seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        private_key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        pem = private_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self._numbers = private_key.public_key().public_numbers()
        self._key_id = hashlib.sha256(str(self._numbers.n).encode()).hexdigest()[:40]
        signer: Any = crypt.RSASigner
        self._signer: Any = signer.from_string(pem, key_id=self._key_id)
        self._issued: dict[tuple[str, str], tuple[float, str]] = {}

    def token(self, *, email: str, audience: str) -> str:
        """Return a token for an account and an audience, valid for at least half an hour."""
        now = self._clock()
        issued_at, token = self._issued.get((email, audience), (0.0, ""))
        if now - issued_at >= RENEW_SECONDS:
            token = self._sign(email, audience, int(now))
            self._issued[email, audience] = (now, token)
        return token

    def _sign(self, email: str, audience: str, now: int) -> str:
        subject = str(int(hashlib.sha256(email.encode()).hexdigest(), 16))[:21]
        claims = {
            "iss": ISSUER,
            "aud": audience,
            "azp": subject,
            "sub": subject,
            "email": email,
            "email_verified": True,
            "iat": now,
            "exp": now + LIFETIME_SECONDS,
        }
        encode: Any = jwt.encode
        token: bytes = encode(self._signer, claims)
        return token.decode()

    def jwks(self) -> dict[str, list[dict[str, str]]]:
        """Return the public key as a JSON Web Key Set (RFC 7517)."""
        return {
            "keys": [
                {
                    "kty": "RSA",
                    "use": "sig",
                    "alg": "RS256",
                    "kid": self._key_id,
                    "n": _base64url(self._numbers.n),
                    "e": _base64url(self._numbers.e),
                }
            ]
        }


def _base64url(number: int) -> str:
    octets = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()
