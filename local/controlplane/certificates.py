"""Keys and certificates of one control plane: its own authority, a serving certificate, the token-signing key.

Made anew for each start and thrown away with its folder; nothing here is meant to protect anything beyond one
machine. RFC 5280's extensions are set in full, because Python's strict verification asks for them.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

    from local.controlplane.layout import Layout

LIFETIME = timedelta(days=365)
HOST = "127.0.0.1"
_DNS_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


def write_credentials(layout: Layout) -> None:
    """Write the authority, the serving certificate and the key that signs service account tokens."""
    authority_key, authority = _authority()
    serving_key, serving = _serving(authority_key, authority)
    signing_key = ec.generate_private_key(ec.SECP256R1())
    _write(layout.authority, authority.public_bytes(serialization.Encoding.PEM))
    _write(layout.serving_certificate, serving.public_bytes(serialization.Encoding.PEM))
    _write(layout.serving_key, _pem(serving_key))
    _write(layout.signing_key, _pem(signing_key))
    public = signing_key.public_key()
    _write(
        layout.signing_public_key,
        public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
    )


def _authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tpu-provisioner local control plane")])
    builder = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return key, builder.sign(key, hashes.SHA256())


def _serving(
    authority_key: ec.EllipticCurvePrivateKey, authority: x509.Certificate
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    alternatives: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(HOST))]
    alternatives += [x509.DNSName(each) for each in _DNS_NAMES]
    builder = (
        _builder(name, authority.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
    )
    return key, builder.sign(authority_key, hashes.SHA256())


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # An hour back, for a machine whose clock is being corrected meanwhile.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # SEC1, as Kubernetes' own certificates are: every part reads it.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
