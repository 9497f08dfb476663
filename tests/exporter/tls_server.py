"""An HTTPS server with a certificate of its own signing, which notes the tokens of clients."""

import base64
import datetime as dt
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from standins.kit.local_answers import Answer, Asked, LocalAnswers


class TlsServer(LocalAnswers):
    """Its certificate, for 127.0.0.1 only, is its own authority: ``ca.crt`` in its folder."""

    def __init__(self, folder: Path) -> None:
        self.ca_file, key_file = folder / "ca.crt", folder / "tls.key"
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
        now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
        place = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        built = x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day)
        certificate = built.add_extension(place, critical=False).sign(key, hashes.SHA256())
        pem = serialization.Encoding.PEM
        self.ca_file.write_bytes(certificate.public_bytes(pem))
        form = serialization.PrivateFormat.PKCS8
        key_file.write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.ca_file, key_file)
        self.tokens: list[str | None] = []
        super().__init__(self._answer, tls=context)

    @property
    def ca_data(self) -> str:
        return base64.b64encode(self.ca_file.read_bytes()).decode()

    def _answer(self, asked: Asked) -> Answer:
        self.tokens.append(asked.headers.get("Authorization"))
        return Answer(200, b"{}")
