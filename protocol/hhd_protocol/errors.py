"""The errors of the pure core: what is wrong with bytes that came from outside."""

from __future__ import annotations


class FormatError(ValueError):
    """Bytes from a file or a peer that do not follow their spec page; the message is one sentence for a person."""


class TooLargeError(FormatError):
    """Bytes from outside that pass a bound of `limits`, refused before anything was allocated."""


class NewerVersionError(FormatError):
    """A format version that this program does not know; the remedy is an upgrade."""
