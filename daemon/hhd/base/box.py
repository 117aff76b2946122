"""Small files of this device's own, sealed: without its key neither content nor names say what they are about."""

from __future__ import annotations

import os

from hhd_protocol.crypto import NONCE_BYTES, SealError, derive, seal, unseal


class Box:
    """Seals what is kept under a name with a key of 32 bytes, which belongs to one purpose on one device."""

    def __init__(self, key: bytes) -> None:
        self._names, self._content = derive(key, "box-names"), derive(key, "box")

    def name(self, text: str) -> str:
        """Return what a file that is kept under `text` is called."""
        return derive(self._names, "name", text.encode("utf-8", "surrogatepass")).hex()[:32]

    def sealed(self, name: str, raw: bytes) -> bytes:
        """Return `raw` as it is kept in the file of that name."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + seal(self._content, nonce, raw, ad=name.encode())

    def opened(self, name: str, sealed: bytes) -> bytes | None:
        """Return what `sealed` was given; None if the file is damaged, or is not this device's."""
        try:
            return unseal(self._content, sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], ad=name.encode())
        except (SealError, ValueError, TypeError):
            return None
