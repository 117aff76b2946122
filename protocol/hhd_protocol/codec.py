"""Canonical CBOR: one value has exactly one encoding (RFC 8949, section 4.2.1).

A decoder here takes nothing that an encoder here would not have written: no tags, no indefinite lengths,
no floats, no text or byte strings in a longer form than needed, no map keys out of order or twice. So a
hash over encoded bytes is a hash over the value.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import cbor2

from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.limits import CBOR_BYTES_MAX, CBOR_DEPTH_MAX

Value = None | bool | int | bytes | str | list["Value"] | dict["Value", "Value"]
"""What an encoded value may be made of; map keys are int, str or bytes."""


_SCALARS = frozenset((bool, int, bytes, str, type(None)))
_KEYS = frozenset((int, str, bytes))
_LARGE_BYTES = 4096
"""From here on a byte string at the end of a list is not encoded again to be compared."""


def encode(value: Value) -> bytes:
    """Return the one canonical encoding of `value`."""
    return cbor2.dumps(value, canonical=True)


def decode(raw: bytes, *, bytes_max: int = CBOR_BYTES_MAX) -> Value:
    """Return the value that `raw` encodes.

    Raises TooLargeError past `bytes_max`, FormatError if `raw` is not the canonical encoding of a value.
    """
    if len(raw) > bytes_max:
        raise TooLargeError(f"an encoded value of {len(raw)} bytes passes the bound of {bytes_max}")
    try:
        value = cbor2.loads(raw)
    except (
        cbor2.CBORDecodeError,
        ValueError,
        TypeError,
        RecursionError,
        OverflowError,
        MemoryError,
    ) as error:
        raise FormatError("the bytes are not CBOR") from error
    ordered = _insist_on_plain(value, 0)
    if not _is_canonical(raw, value, ordered):
        raise FormatError("the bytes are CBOR, but not in canonical form")
    return value  # type: ignore[no-any-return]


def _is_canonical(raw: bytes, value: Value, ordered: bool) -> bool:
    """Whether `raw`, which decodes to `value`, is its one encoding; `ordered`: no map in it has several keys."""
    if type(value) is list and value and type(last := value[-1]) is bytes and len(last) >= _LARGE_BYTES:
        # What a long string at the end holds was taken from behind its length as it stands: that needs no comparing.
        before = encode([*value[:-1], b""])[:-1] + _head_of(len(last))
        return len(raw) == len(before) + len(last) and raw.startswith(before)
    # Only a map of several keys has an order, and looking for it is half of what encoding takes.
    return (cbor2.dumps(value) if ordered else encode(value)) == raw


def _head_of(size: int) -> bytes:
    """What stands before a byte string of `size` bytes, at least `_LARGE_BYTES`."""
    return b"\x59" + size.to_bytes(2, "big") if size < 1 << 16 else b"\x5a" + size.to_bytes(4, "big")


def decode_own(raw: bytes) -> Value:
    """Return the value that `raw` encodes, which `encode` wrote and a seal of this device has kept since.

    A third of the time of `decode`: the canonical form is not checked again. Raises FormatError.
    """
    try:
        return cbor2.loads(raw)  # type: ignore[no-any-return]
    except (cbor2.CBORDecodeError, ValueError, TypeError, RecursionError, OverflowError, MemoryError) as error:
        raise FormatError("the bytes are not CBOR") from error


def sequence(raw: bytes) -> Iterator[bytes]:
    """Cut `raw`, encodings end to end, into one encoding after the other; raises FormatError where that fails."""
    source = io.BytesIO(raw)
    decoder = cbor2.CBORDecoder(source)
    at = 0
    while at < len(raw):
        try:
            decoder.decode()
        except (cbor2.CBORDecodeError, ValueError, TypeError, RecursionError, OverflowError, MemoryError) as error:
            raise FormatError("the bytes are not CBOR values end to end") from error
        yield raw[at : source.tell()]
        at = source.tell()


def _insist_on_plain(value: object, depth: int) -> bool:
    """Raise FormatError if there is something in `value` that has no place; say whether no map in it has an order."""
    if depth > CBOR_DEPTH_MAX:
        raise FormatError(f"the value is nested deeper than {CBOR_DEPTH_MAX}")
    if type(value) in _SCALARS:
        return True
    ordered = True
    if type(value) is list:
        for item in value:
            if type(item) not in _SCALARS:  # A call an item would be half of a decoder's time.
                ordered &= _insist_on_plain(item, depth + 1)
    elif type(value) is dict:
        ordered = len(value) < 2
        for key, item in value.items():
            if type(key) not in _KEYS:
                raise FormatError("a map key is neither integer, text nor bytes")
            if type(item) not in _SCALARS:
                ordered &= _insist_on_plain(item, depth + 1)
    else:
        raise FormatError(f"a value of kind {type(value).__name__} has no place in this format")
    return ordered
