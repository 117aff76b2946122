"""TLS 1.3 between two devices, each known by the key of its certificate, judged within the handshake.

Python's `ssl` lets nobody look at the other side's certificate before the handshake is over, and can ask a client for
one only if it knows all that may come. So this is pyOpenSSL, the one file that knows it; the way back is a handshake
without a verdict in it and a look afterwards. It also writes to the socket itself, without the copies of a memory BIO:
a link has three times the throughput of asyncio's TLS.

Nothing of a certificate counts but its key: no dates (a clock that jumps cuts no link), no names, no issuer. Sessions
are not resumed: a resumed one would ask nobody.
"""

from __future__ import annotations

import enum
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from OpenSSL import SSL

from hhd.transports.link import LinkError, Why

_PROTOCOL = b"hhd-link"

_REFUSALS = ("unknown ca", "bad certificate", "certificate unknown", "access denied", "certificate required")
"""Alerts by which the other side says that it does not want this one."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The certificate by which this device shows itself, and its key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


NOTHING_NOW, END = -1, 0
"""What a read returns besides a number of bytes."""

_PARTIAL_WRITE = 1
"""SSL_MODE_ENABLE_PARTIAL_WRITE, which pyOpenSSL sets and does not name: a call for each record of 16 KiB."""


class Wants(enum.Enum):
    """What a handshake waits for."""

    READ = "read"
    WRITE = "write"


class Tls:
    """Makes TLS connections of one device."""

    def __init__(self, own: Certificate) -> None:
        context = SSL.Context(SSL.TLS_METHOD)
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
        context.use_certificate(x509.load_pem_x509_certificate(own.certificate))
        key = load_pem_private_key(own.key, None)
        assert isinstance(key, Ed25519PrivateKey)
        context.use_privatekey(key)
        context.set_options(SSL.OP_NO_TICKET)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_alpn_select_callback(
            lambda _, offered: _PROTOCOL if _PROTOCOL in offered else SSL.NO_OVERLAPPING_PROTOCOLS
        )
        context.set_alpn_protos([_PROTOCOL])
        context.clear_mode(_PARTIAL_WRITE)
        self._context = context

    def connection(self, own: socket.socket, *, dialled: bool, approve: Callable[[bytes], bool]) -> TlsConnection:
        """Return a connection over a socket that does not block; `approve` is given the peer's certificate as DER."""
        return TlsConnection(SSL.Connection(self._context, own), dialled, approve)


class TlsConnection:
    """One TLS connection over a socket that does not block."""

    def __init__(self, connection: SSL.Connection, dialled: bool, approve: Callable[[bytes], bool]) -> None:
        self._connection, self._approve = connection, approve
        self._approved: bytes | None = None
        self._refused = False
        connection.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, self._verify)
        if dialled:
            connection.set_connect_state()
        else:
            connection.set_accept_state()

    def handshake(self) -> Wants | None:
        """Go on with the handshake; None once it is done. Raises LinkError."""
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            return Wants.READ
        except SSL.WantWriteError:
            return Wants.WRITE
        except SSL.Error as error:
            raise self._error(error) from None
        shown = self._connection.get_peer_certificate()
        if (
            shown is None
            or self._approved is None
            or shown.to_cryptography().public_bytes(Encoding.DER) != self._approved
            or self._connection.get_protocol_version() != SSL.TLS1_3_VERSION
        ):
            raise LinkError(Why.FAULT, "The other end took part in a handshake that nobody approved.")
        return None

    def read_into(self, room: memoryview) -> int:
        """Read into `room` and return how many bytes, `NOTHING_NOW` or `END`. Raises LinkError.

        One record at most; if it is no larger than `room`, nothing of it is left over.
        """
        try:
            return int(self._connection.recv_into(room))
        except (SSL.WantReadError, SSL.WantWriteError):
            return NOTHING_NOW
        except SSL.ZeroReturnError:
            return END
        except SSL.Error as error:
            raise self._error(error) from None

    def write(self, raw: memoryview) -> int:
        """Send all of `raw` and return how many bytes it has; 0: not now, and then the same again. Raises LinkError."""
        try:
            return self._connection.send(raw)
        except (SSL.WantReadError, SSL.WantWriteError):
            return 0
        except SSL.Error as error:
            raise self._error(error) from None

    def say_end(self) -> None:
        """Tell the other side that nothing more comes, if it can be told at once."""
        try:
            self._connection.shutdown()
        except SSL.Error:
            return  # It finds out by the end of the connection.

    def _verify(self, connection: SSL.Connection, shown: object, error: int, depth: int, ok: int) -> bool:
        """Called by OpenSSL for each certificate, and for each thing that it finds odd about one."""
        try:
            raw = shown.to_cryptography().public_bytes(Encoding.DER)  # type: ignore[attr-defined]
            approved = depth == 0 and not self._refused and (self._approved == raw or self._approve(raw))
        except ValueError:  # A certificate that only OpenSSL can read.
            approved = False
        if approved:
            self._approved = raw
        else:
            self._refused = True
        return approved

    def _error(self, error: SSL.Error) -> LinkError:
        if self._refused:
            return LinkError(Why.STRANGER, "The other end is not the device that was wanted.")
        if isinstance(error, SSL.SysCallError):
            return LinkError(Why.LOST, f"The connection broke ({error.args[1] if len(error.args) > 1 else error}).")
        said = ", ".join(str(one[-1]) for one in error.args[0]) if error.args and error.args[0] else "no reason given"
        if "alert" in said and any(refusal in said for refusal in _REFUSALS):
            return LinkError(Why.REFUSED, "The other device does not know this one.")
        return LinkError(Why.FAULT, f"The other end does not speak TLS as hhd does ({said}).")
