"""Keys of a control plane: an authority, a serving certificate, the key of account tokens."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from standins.controlplane.programs import AUTHORITY
from standins.kit.addresses import HOST

_LIFETIME = timedelta(days=365)
_PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_AUTHORITY_NAME = "kueue-ca"  # Kueue leaves an authority as it is only by this name
_HOST_NAMES = (
    *("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
    "kueue-webhook-service.kueue-system.svc",
)


def write_credentials(folder: Path, *host_names: str) -> None:
    """Write ``ca.crt``, ``ca.key``, ``tls.crt``, ``tls.key`` and the key pair of account tokens.

    All servers, webhooks too, show the one certificate, which also bears the host names that are
    given here.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # RSA: what controllers that make their own have, and all that Kueue can read.
    authority_key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tpu-provisioner local control plane")])
    authority = (
        _begin(name, name, authority_key, signs=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_AUTHORITY_NAME)]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    serving_key, signing_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    alternatives: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(HOST))]
    alternatives += [x509.DNSName(each) for each in (*_HOST_NAMES, *host_names)]
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    serving = (
        _begin(subject, name, serving_key, signs=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(issuer_key, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem, public = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    files = {
        AUTHORITY: authority.public_bytes(pem),
        "ca.key": _render_key(authority_key),
        "tls.crt": serving.public_bytes(pem),
        "tls.key": _render_key(serving_key),
        "service-accounts.key": _render_key(signing_key),
        "service-accounts.pub": signing_key.public_key().public_bytes(pem, public),
    }
    for each, content in files.items():
        (folder / each).touch(mode=0o600)
        (folder / each).write_bytes(content)


def _begin(subject: x509.Name, issuer: x509.Name, key: _PrivateKey, *, signs: bool) -> x509.CertificateBuilder:
    """Return what both certificates have; with `signs` it is an authority's."""
    now = datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # An hour back, for a machine whose clock is being corrected meanwhile.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
        .add_extension(usage, critical=True)
    )


def _render_key(key: _PrivateKey) -> bytes:
    # SEC1 and PKCS#1, as Kubernetes' own certificates are: every part reads it.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
