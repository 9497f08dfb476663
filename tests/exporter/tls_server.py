"""An HTTPS server with a certificate of its own authority, which notes each client's identity."""

import base64
import datetime as dt
import ipaddress
import ssl
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from standins.kit.local_answers import Answer, Handler, LocalAnswers


def write_certificates(folder: Path) -> None:
    """An authority ``ca.crt``; a certificate ``tls.crt`` with key for 127.0.0.1 and for clients."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    day = dt.timedelta(days=1)

    def build(name: x509.Name, public: Any, extension: Any, *, critical: bool) -> x509.Certificate:
        builder = x509.CertificateBuilder(issuer, name, public, x509.random_serial_number(), now - day, now + day)
        return builder.add_extension(extension, critical=critical).sign(authority_key, hashes.SHA256())

    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    authority = build(
        issuer, authority_key.public_key(), x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    certificate = build(subject, key.public_key(), names, critical=False)
    pem = serialization.Encoding.PEM
    (folder / "ca.crt").write_bytes(authority.public_bytes(pem))
    (folder / "tls.crt").write_bytes(certificate.public_bytes(pem))
    (folder / "tls.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


class _Handler(Handler):
    protocol_version = "HTTP/1.0"  # it closes after each answer
    seen: list[tuple[str | None, bool]]

    def do_GET(self) -> None:  # noqa: N802 -- the name that http.server calls
        self.seen.append((self.headers.get("Authorization"), bool(self.connection.getpeercert())))
        super().do_GET()


class TlsServer(LocalAnswers):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[tuple[str | None, bool]] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        context.load_verify_locations(folder / "ca.crt")
        context.verify_mode = ssl.CERT_OPTIONAL
        noting = type("Noting", (_Handler,), {"seen": self.seen})
        super().__init__(lambda _asked: Answer(200, b"{}"), tls=context, handler=noting)

    def data(self, name: str) -> str:
        return base64.b64encode((self.folder / name).read_bytes()).decode()
