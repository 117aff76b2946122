"""Certificates work in real TLS whatever the date, and name the device."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509

from hhd.identity.certificates import (
    WEB_CERTIFICATE,
    WEB_KEY,
    WEB_SIGNATURE,
    Certificate,
    link_certificate,
    peer_device,
    web_certificate,
)
from hhd.identity.key import LostKeyError, open_identity


def _context(certificate: Certificate, folder: Path, side: int, trusted: bytes) -> ssl.SSLContext:
    pem = folder / f"{side}.pem"
    pem.write_bytes(certificate.certificate + certificate.key)
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(pem)
    context.load_verify_locations(cadata=trusted.decode())
    return context


def test_two_devices_meet_over_tls_with_their_certificates_pinned(tmp_path: Path) -> None:
    laptop, desktop = open_identity(tmp_path / "laptop"), open_identity(tmp_path / "desktop")
    theirs, ours = link_certificate(desktop), link_certificate(laptop)
    server = _context(theirs, tmp_path, ssl.PROTOCOL_TLS_SERVER, ours.certificate)
    client = _context(ours, tmp_path, ssl.PROTOCOL_TLS_CLIENT, theirs.certificate)
    here, there = socket.socketpair()
    met: list[bytes] = []

    def serve() -> None:
        with server.wrap_socket(there, server_side=True) as link:
            met.append(link.getpeercert(binary_form=True) or b"")
            link.sendall(b"hello")

    thread = threading.Thread(target=serve)
    thread.start()
    with client.wrap_socket(here) as link:
        assert link.version() == "TLSv1.3"
        assert peer_device(link.getpeercert(binary_form=True) or b"") == desktop.id
        assert link.recv(5) == b"hello"
    thread.join()
    assert peer_device(met[0]) == laptop.id


def test_a_certificate_is_the_same_each_time_and_outlives_every_clock(tmp_path: Path) -> None:
    identity = open_identity(tmp_path)
    assert link_certificate(identity) == link_certificate(identity)
    read = x509.load_pem_x509_certificate(link_certificate(identity).certificate)
    assert read.not_valid_before_utc.year == 1970 and read.not_valid_after_utc.year == 9999


def test_the_certificate_for_browsers_is_p256_and_made_once(tmp_path: Path) -> None:
    identity = open_identity(tmp_path)
    made = web_certificate(tmp_path, identity)
    assert web_certificate(tmp_path, identity) == made
    read = x509.load_pem_x509_certificate(made.certificate)
    assert getattr(read.public_key(), "curve").name == "secp256r1"  # noqa: B009
    assert (tmp_path / WEB_KEY).stat().st_mode & 0o777 == 0o600
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / WEB_CERTIFICATE, tmp_path / WEB_KEY)


@pytest.mark.parametrize("name", [WEB_KEY, WEB_CERTIFICATE, WEB_SIGNATURE])
def test_a_damaged_certificate_for_browsers_is_an_error_not_a_new_one(tmp_path: Path, name: str) -> None:
    identity = open_identity(tmp_path)
    web_certificate(tmp_path, identity)
    raw = bytearray((tmp_path / name).read_bytes())
    at = len(raw) // 2
    if name != WEB_SIGNATURE:  # Text: another letter of the same alphabet, and not the end of a line.
        at += raw[at : at + 1].isspace()
        raw[at] = ord("B") if raw[at : at + 1] == b"A" else ord("A")
    else:
        raw[at] ^= 1
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(LostKeyError):
        web_certificate(tmp_path, identity)


def test_what_is_no_ed25519_certificate_names_no_device(tmp_path: Path) -> None:
    identity = open_identity(tmp_path)
    web = x509.load_pem_x509_certificate(web_certificate(tmp_path, identity).certificate)
    from cryptography.hazmat.primitives.serialization import Encoding

    assert peer_device(web.public_bytes(Encoding.DER)) is None
    assert peer_device(b"nonsense") is None
