"""What TLS connections to a model's service trust: read once, since the system's certificates take a megabyte."""

from __future__ import annotations

import os
import ssl

_kept: dict[tuple[object, ...], ssl.SSLContext] = {}


def trusted() -> ssl.SSLContext:
    """The client's own default: the system's certificates, or those that SSL_CERT_FILE or SSL_CERT_DIR name.

    A process forked after the first call shares what was read, unless that has changed since.
    """
    import httpx2

    now = _stamp()
    if now not in _kept:
        _kept.clear()
        _kept[now] = httpx2.create_ssl_context()
    return _kept[now]


def _stamp() -> tuple[object, ...]:
    """Where certificates are, and when they last changed."""
    named = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    paths = ssl.get_default_verify_paths()
    found: list[object] = [*named]
    for path in (*named, paths.openssl_cafile, paths.openssl_capath):
        try:
            seen = os.stat(path) if path else None
        except OSError:
            seen = None
        found.append(seen and (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns))
    return tuple(found)
