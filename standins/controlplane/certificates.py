"""Keys and users of a control plane: its certificates, and who may talk to the API server.

Controllers use the user names that Kubernetes grants rights to by default
(https://kubernetes.io/docs/reference/access-authn-authz/rbac/#core-component-roles).
"""

import ipaddress
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from standins.controlplane.layout import Layout
from standins.kit.addresses import HOST

LIFETIME = timedelta(days=365)
_PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_DNS_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


def write_credentials(layout: Layout) -> None:
    """Write the authority, the serving certificate and the key of service account tokens."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key)
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


def write_controller_credentials(folder: Path, *, authority_name: str, host_names: tuple[str, ...]) -> None:
    """Write an authority, its key and a serving certificate for a controller that checks names.

    Args:
        folder: Gets ``ca.crt``, ``ca.key``, ``tls.crt`` and ``tls.key``.
        authority_name: DNS name that the authority must bear.
        host_names: DNS names that the serving certificate must bear, beside the loopback address.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # RSA: what such controllers make themselves, and all that Kueue's can read.
    authority_key = rsa.generate_private_key(65537, 2048)
    authority = _authority(authority_key, authority_name)
    serving_key, serving = _serving(authority_key, authority, host_names)
    _write(folder / "ca.crt", authority.public_bytes(serialization.Encoding.PEM))
    _write(folder / "ca.key", _pem(authority_key))
    _write(folder / "tls.crt", serving.public_bytes(serialization.Encoding.PEM))
    _write(folder / "tls.key", _pem(serving_key))


def _authority(key: _PrivateKey, dns_name: str = "") -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, dns_name or "tpu-provisioner local control plane")])
    builder = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    if dns_name:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(dns_name)]), critical=False)
    return builder.sign(key, hashes.SHA256())


def _serving(
    authority_key: _PrivateKey, authority: x509.Certificate, dns_names: tuple[str, ...] = _DNS_NAMES
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    alternatives: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(HOST))]
    alternatives += [x509.DNSName(each) for each in dns_names]
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


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey
) -> x509.CertificateBuilder:
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


def _pem(key: _PrivateKey) -> bytes:
    # SEC1 and PKCS#1, as Kubernetes' own certificates are: every part reads it.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


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
