"""Certificates of this device for TLS: Ed25519 for daemons, P-256 for browsers, which refuse Ed25519.

Trust is the pinned key, so dates carry none and are as wide as the format allows: a clock that jumps must not cut
links.
"""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from hhd.base import files
from hhd.identity.key import Identity, LostKeyError
from hhd_protocol.crypto import SealError, device_id, sign, verify
from hhd_protocol.ids import DeviceId

BEGIN = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)  # noqa: UP017
END = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.timezone.utc)  # noqa: UP017
WEB_KEY, WEB_CERTIFICATE, WEB_SIGNATURE = "web.key", "web.crt", "web.sig"


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A certificate with its private key, both PEM; `signature`: the device key's over its DER form (browsers only)."""

    certificate: bytes
    key: bytes = field(repr=False)
    signature: bytes = b""


def link_certificate(identity: Identity) -> Certificate:
    """Return the certificate for links between daemons: the same key gives the same bytes."""
    key = ed25519.Ed25519PrivateKey.from_private_bytes(identity.seed)
    certificate = _builder(identity, key.public_key()).sign(key, None)
    return Certificate(certificate=certificate.public_bytes(Encoding.PEM), key=_pem(key))


def peer_device(der: bytes) -> DeviceId | None:
    """Return the device that an Ed25519 certificate is of, None if it is not one; its dates and names are ignored."""
    try:
        public = x509.load_der_x509_certificate(der).public_key()
    except (ValueError, UnsupportedAlgorithm):
        return None
    if not isinstance(public, ed25519.Ed25519PublicKey):
        return None
    return device_id(public.public_bytes(Encoding.Raw, PublicFormat.Raw))


def web_certificate(folder: Path, identity: Identity) -> Certificate:
    """Return the certificate for browsers, made on first use in the identity's `folder`.

    Raises LostKeyError if its files are there and do not fit together: phones have pinned it.
    """
    paths = [folder / name for name in (WEB_KEY, WEB_CERTIFICATE, WEB_SIGNATURE)]
    if not paths[2].exists():
        _make_web(paths, identity)
    try:
        key, certificate, signature = (path.read_bytes() for path in paths)
        read = x509.load_pem_x509_certificate(certificate)
        verify(identity.public, "certificate", read.public_bytes(Encoding.DER), signature)
        private = load_pem_private_key(key, None)
        if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != read.public_key():
            raise ValueError("another key")
    except (OSError, ValueError, SealError, UnsupportedAlgorithm) as error:
        raise LostKeyError(
            f"The certificate for browsers in {folder} is damaged; nothing was changed. Restore "
            f"{', '.join(p.name for p in paths)} "
            "from a backup, or remove all three: phones must then pair again."
        ) from error
    return Certificate(certificate=certificate, key=key, signature=signature)


def _make_web(paths: list[Path], identity: Identity) -> None:
    """Write key and certificate first, the signature last: it says that the others are whole."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _builder(identity, key.public_key()).sign(key, hashes.SHA256())
    signature = sign(identity.seed, "certificate", certificate.public_bytes(Encoding.DER))
    for path, content in zip(paths, (_pem(key), certificate.public_bytes(Encoding.PEM), signature), strict=True):
        files.replace(path, [content])
    assert os.path.exists(paths[2])


def _builder(
    identity: Identity, public: ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, identity.text)])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(1)
        .not_valid_before(BEGIN)
        .not_valid_after(END)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )


def _pem(key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
