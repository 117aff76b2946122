"""An error flag that travels in the text of a result, signed, through a client that has no place for it.

A tool can print anything, so a mark counts only where its tag, keyed with a secret of this person's devices, fits the
very call whose result it stands in; then exactly what was added is taken off again.
"""

from __future__ import annotations

import hashlib
import hmac

_HEAD = "[tool error "
_TAIL = "]\n"
_TAG_CHARS = 32


def mark(key: bytes, call: str) -> str:
    """The text to put before the result of `call`; `key` is 32 secret bytes."""
    return f"{_HEAD}{_tag(key, call)}{_TAIL}"


def unmark(key: bytes, call: str, text: str) -> str | None:
    """`text` without the mark that fits `call`, or None if it carries none."""
    end = len(_HEAD) + _TAG_CHARS + len(_TAIL)
    if not text.startswith(_HEAD) or text[end - len(_TAIL) : end] != _TAIL:
        return None
    found = text[len(_HEAD) : len(_HEAD) + _TAG_CHARS]
    if not found.isascii() or not hmac.compare_digest(found, _tag(key, call)):
        return None
    return text[end:]


def _tag(key: bytes, call: str) -> str:
    return hashlib.blake2b(call.encode("utf-8", "replace"), key=key, digest_size=_TAG_CHARS // 2).hexdigest()
