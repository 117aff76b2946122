"""What a person may give as the reason of something that is signed and shown on all their devices."""

from __future__ import annotations

from hhd.base.errors import UsageError
from hhd_protocol.limits import STATEMENT_REASON_BYTES_MAX


def judged(reason: str) -> str:
    """Return `reason` as it is signed; raises UsageError where it is none, is too long, or is no text."""
    words = reason.strip()
    if not words:
        raise UsageError("A reason is a few words, and these are none; nothing was changed.")
    try:
        size = len(words.encode())
    except UnicodeEncodeError:  # Bytes of an argument that are no UTF-8.
        raise UsageError("A reason is text, and this has bytes that are none; nothing was changed.") from None
    if size > STATEMENT_REASON_BYTES_MAX:
        raise UsageError(
            f"A reason has at most {STATEMENT_REASON_BYTES_MAX} bytes, and this one has {size}; nothing was changed."
        )
    return words
