"""The short code that one device shows and a person types on the other (`pairing.md`, Code)."""

from __future__ import annotations

from hhd_protocol.errors import FormatError

DIGITS = 8
"""Seven drawn at random and one that checks them."""

CODES = 10 ** (DIGITS - 1)
"""As many codes there are: 23 bits. A stranger has one guess at each that a person opens."""

_DAMM = (
    (0, 3, 1, 7, 5, 9, 8, 6, 4, 2),
    (7, 0, 9, 2, 1, 5, 4, 8, 6, 3),
    (4, 2, 0, 6, 8, 7, 1, 3, 5, 9),
    (1, 7, 5, 0, 9, 8, 3, 4, 2, 6),
    (6, 1, 2, 3, 0, 4, 5, 9, 7, 8),
    (3, 6, 7, 4, 2, 0, 9, 5, 8, 1),
    (5, 8, 6, 9, 7, 2, 0, 1, 3, 4),
    (8, 9, 4, 5, 3, 6, 2, 0, 1, 7),
    (9, 4, 3, 8, 6, 1, 7, 2, 0, 5),
    (2, 5, 8, 1, 4, 3, 6, 7, 9, 0),
)
"""H. M. Damm's quasigroup of order 10: the last digit shows each wrong digit and each swap of two neighbours."""


def code_of(drawn: bytes) -> str:
    """Return the code that 16 random bytes come to; all are as likely, but for one part in 10**31."""
    assert len(drawn) == 16
    digits = f"{int.from_bytes(drawn, 'big') % CODES:0{DIGITS - 1}d}"
    return digits + str(_check(digits))


def parse(text: str) -> str:
    """Return the code that a person typed, with blanks or dashes or not.

    Raises FormatError if it cannot be one, so that a slip of the finger costs no guess.
    """
    if len(text) > 64:
        raise FormatError("that is longer than a code")
    digits = "".join(letter for letter in text if letter not in "- \t")
    if len(digits) != DIGITS or not digits.isascii() or not digits.isdigit():
        raise FormatError(f"a code has {DIGITS} digits")
    if _check(digits) != 0:
        raise FormatError("a digit of the code is wrong, or two are swapped")
    return digits


def shown(code: str) -> str:
    """Return a code as a person reads it aloud: two groups."""
    return f"{code[: DIGITS // 2]}-{code[DIGITS // 2 :]}"


def _check(digits: str) -> int:
    state = 0
    for digit in digits:
        state = _DAMM[state][int(digit)]
    return state
