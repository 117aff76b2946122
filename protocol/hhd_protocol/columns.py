"""Columns of unsigned integers as bytes: a width, then every value in that width, little-endian.

A head lists thousands of pages; CBOR integers one by one would cost a Python object each way, a column costs a copy.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate
from operator import sub

from hhd_protocol.errors import FormatError

Column = Sequence[int]
_CODES = {1: "B", 2: "H", 4: "I"}


def encode_column(values: Column) -> bytes:
    """Return `values`, each below 2**32, in the smallest of the widths 1, 2 and 4."""
    if not values:
        return b""
    high = max(values)
    width = 1 if high < 1 << 8 else 2 if high < 1 << 16 else 4
    packed = array(_CODES[width], values)
    if sys.byteorder == "big":
        packed.byteswap()
    return bytes((width,)) + packed.tobytes()


def decode_column(raw: object) -> Column:
    """Return the values of a column; raises FormatError if it is none, or wider than it needs."""
    if not isinstance(raw, bytes):
        raise FormatError("a column is not a byte string")
    if not raw:
        return ()
    width = raw[0]
    if width not in _CODES or len(raw) == 1 or (len(raw) - 1) % width:
        raise FormatError("a column does not have the length its width asks for")
    packed = array(_CODES[width])
    packed.frombytes(raw[1:])
    if sys.byteorder == "big":
        packed.byteswap()
    if width > 1 and max(packed) < 1 << 4 * width:
        raise FormatError("a column is wider than its values need")
    return packed


def encode_rising(values: Column) -> bytes:
    """Return strictly ascending `values` as the column of their gaps: first value, then each difference."""
    return encode_column([values[0], *map(sub, values[1:], values)]) if values else b""


def decode_rising(raw: object, *, below: int) -> Column:
    """Return strictly ascending values, each less than `below`; raises FormatError."""
    gaps = decode_column(raw)
    if not gaps:
        return ()
    if min(gaps[1:], default=1) == 0:
        raise FormatError("numbers that must ascend do not")
    values = array("Q", accumulate(gaps))
    if values[-1] >= below:
        raise FormatError("a number passes its bound")
    return values
